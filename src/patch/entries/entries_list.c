// SPDX-License-Identifier: MIT
#include "patch/entries/entries_list.h"
#include "patch/entries/entry_code.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTION "__patchable_function_entries"

bool entries_in_segment(const struct dl_phdr_info *info, uintptr_t address, size_t bytes,
                        unsigned flags)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & flags) == flags && address >= start &&
            bytes <= segment->p_memsz && address - start <= segment->p_memsz - bytes)
            return true;
    }
    return false;
}

struct file_view {
    const unsigned char *bytes;
    size_t size;
};

static bool map_file(const char *path, struct file_view *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat status;
    file->bytes = MAP_FAILED;
    if (!fstat(fd, &status) && status.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        file->size = (size_t)status.st_size;
        file->bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    return file->bytes != MAP_FAILED;
}

static const Elf64_Shdr *section_table(const struct file_view *file, size_t *count)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)file->bytes;
    *count = head->e_shnum;
    const bool sane =
        !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_shentsize == sizeof(Elf64_Shdr) &&
        head->e_shoff < file->size && head->e_shoff % 8 == 0 &&
        *count <= (file->size - head->e_shoff) / sizeof(Elf64_Shdr) && head->e_shstrndx < *count;
    return sane ? (const Elf64_Shdr *)(file->bytes + head->e_shoff) : NULL;
}

static bool find_section(const struct file_view *file, uintptr_t *address, size_t *bytes)
{
    size_t count;
    const Elf64_Shdr *table = section_table(file, &count);
    if (!table)
        return false;
    const Elf64_Shdr *names = &table[((const Elf64_Ehdr *)file->bytes)->e_shstrndx];
    if (names->sh_offset > file->size || names->sh_size > file->size - names->sh_offset)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (table[i].sh_name >= names->sh_size ||
            names->sh_size - table[i].sh_name < sizeof SECTION ||
            memcmp(file->bytes + names->sh_offset + table[i].sh_name, SECTION, sizeof SECTION))
            continue;
        *address = table[i].sh_addr;
        *bytes = table[i].sh_size;
        return true;
    }
    return false;
}

const uintptr_t *entries_list(const struct dl_phdr_info *info, size_t *count)
{
    const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    struct file_view file;
    uintptr_t address;
    size_t bytes;
    if (!map_file(path, &file))
        return NULL;
    const bool found = find_section(&file, &address, &bytes);
    munmap((void *)file.bytes, file.size);
    if (!found)
        return NULL;
    address += info->dlpi_addr;
    *count = bytes / sizeof(uintptr_t);
    return address % sizeof(uintptr_t) == 0 && entries_in_segment(info, address, bytes, PF_R)
               ? (const uintptr_t *)address
               : NULL;
}

// The dynamic section of a module; the loader may have added the base to its addresses, or not yet.
static uintptr_t dynamic_value(const struct dl_phdr_info *info, Elf64_Sxword tag, bool address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const Elf64_Dyn *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == tag)
                return entry->d_un.d_ptr +
                       (address && entry->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr : 0);
    }
    return 0;
}

void entries_relocate(const struct dl_phdr_info *info, const uintptr_t *list, size_t count,
                      uintptr_t *entries)
{
    for (size_t i = 0; i < count; i++)
        entries[i] = entries_in_segment(info, list[i], ENTRY_BYTES, PF_X)
                         ? list[i]
                         : list[i] + info->dlpi_addr;
    const Elf64_Rela *rela = (const void *)dynamic_value(info, DT_RELA, true);
    const size_t bytes = dynamic_value(info, DT_RELASZ, false);
    if (!rela || !entries_in_segment(info, (uintptr_t)rela, bytes, PF_R))
        return;
    for (size_t i = 0; i < bytes / sizeof *rela; i++) {
        const size_t index = (info->dlpi_addr + rela[i].r_offset - (uintptr_t)list) / sizeof *list;
        if (ELF64_R_TYPE(rela[i].r_info) == R_X86_64_RELATIVE && index < count)
            entries[index] = info->dlpi_addr + (uintptr_t)rela[i].r_addend;
    }
}
