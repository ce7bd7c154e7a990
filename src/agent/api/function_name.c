// SPDX-License-Identifier: MIT
// Names of functions, for programs that want to show them: by the loader's tables, else by the
// symbol table of the file, read in pieces.

#include "agent/api/api.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYMBOLS_AT_ONCE 64
#define MOST_HEADERS 65536

struct symbol_file {
    int fd;
    uint64_t lowest; // virtual address that offsets count from
    Elf64_Shdr symbols, strings;
};

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset < INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool find_lowest(struct symbol_file *file, const Elf64_Ehdr *head)
{
    file->lowest = UINT64_MAX;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_at(file->fd, &segment, sizeof segment, head->e_phoff + i * sizeof segment))
            return false;
        if (segment.p_type == PT_LOAD && (segment.p_vaddr & -UINT64_C(4096)) < file->lowest)
            file->lowest = segment.p_vaddr & -UINT64_C(4096);
    }
    return file->lowest != UINT64_MAX;
}

static bool find_symbols(struct symbol_file *file, const Elf64_Ehdr *head)
{
    for (unsigned i = 0; i < head->e_shnum && i < MOST_HEADERS; i++) {
        Elf64_Shdr *symbols = &file->symbols;
        if (!read_at(file->fd, symbols, sizeof *symbols, head->e_shoff + i * sizeof *symbols))
            return false;
        if (symbols->sh_type == SHT_SYMTAB)
            return read_at(file->fd, &file->strings, sizeof file->strings,
                           head->e_shoff + symbols->sh_link * sizeof file->strings);
    }
    return false;
}

static bool open_symbols(struct symbol_file *file, const char *path)
{
    Elf64_Ehdr head;
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0)
        return false;
    return read_at(file->fd, &head, sizeof head, 0) && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
           head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_phentsize == sizeof(Elf64_Phdr) &&
           head.e_shentsize == sizeof(Elf64_Shdr) && find_lowest(file, &head) &&
           find_symbols(file, &head);
}

static bool is_function_at(const Elf64_Sym *symbol, uint64_t address)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_value == address;
}

// The name of the function that begins at the offset.
static bool find_name(const struct symbol_file *file, uint64_t offset, char *text, size_t bytes)
{
    const uint64_t count = file->symbols.sh_size / sizeof(Elf64_Sym);
    Elf64_Sym some[SYMBOLS_AT_ONCE];
    for (uint64_t i = 0; i < count; i += SYMBOLS_AT_ONCE) {
        const uint64_t now = count - i < SYMBOLS_AT_ONCE ? count - i : SYMBOLS_AT_ONCE;
        if (!read_at(file->fd, some, now * sizeof *some,
                     file->symbols.sh_offset + i * sizeof *some))
            return false;
        for (uint64_t j = 0; j < now; j++) {
            if (!is_function_at(&some[j], file->lowest + offset))
                continue;
            ssize_t got = pread(file->fd, text, bytes - 1,
                                (off_t)(file->strings.sh_offset + some[j].st_name));
            text[got > 0 ? got : 0] = 0; // what follows the name's own end is not looked at
            return got > 0 && *text;
        }
    }
    return false;
}

static bool name_from_file(const struct cairn_frame *frame, char *text, size_t bytes)
{
    struct symbol_file file;
    const bool found =
        open_symbols(&file, frame->module) && find_name(&file, frame->offset, text, bytes);
    if (file.fd >= 0)
        close(file.fd);
    return found;
}

// The nearest exported symbol often belongs to another function: only one that begins there counts.
static bool name_from_loader(const struct cairn_frame *frame, char *text, size_t bytes)
{
    Dl_info info;
    if (!frame->function || !dladdr((void *)frame->function, &info) || !info.dli_sname ||
        (uintptr_t)info.dli_saddr != frame->function)
        return false;
    snprintf(text, bytes, "%s", info.dli_sname);
    return true;
}

API const char *cairn_name_1(const struct cairn_frame *frame, char *text, size_t bytes)
{
    const int saved_errno = errno;
    if (!bytes)
        return text;
    *text = 0;
    const bool placed = frame->module && frame->offset != CAIRN_UNKNOWN;
    if (!name_from_loader(frame, text, bytes) && !(placed && name_from_file(frame, text, bytes))) {
        const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;
        const char *file = slash ? slash + 1 : frame->module;
        if (placed)
            snprintf(text, bytes, "%s+0x%llx", file, (unsigned long long)frame->offset);
        else if (file)
            snprintf(text, bytes, "%s", file);
        else
            snprintf(text, bytes, "0x%llx", (unsigned long long)frame->function);
    }
    errno = saved_errno;
    return text;
}
