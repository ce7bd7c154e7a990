// SPDX-License-Identifier: MIT
#include "outside/elf_file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTIONS_MOST 4096
#define PAGE 4096

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void take_header(struct elf_file *file, const Elf64_Phdr *header)
{
    const bool loads = header->p_type == PT_LOAD;
    const uint64_t end = header->p_vaddr + header->p_memsz;
    if (end < header->p_vaddr || end > UINT64_MAX - PAGE || header->p_filesz > header->p_memsz ||
        header->p_offset > INT64_MAX - header->p_filesz ||
        (loads && (header->p_vaddr ^ header->p_offset) % PAGE))
        return;
    file->headers[file->header_count++] = *header;
    file->has_index |= header->p_type == PT_GNU_EH_FRAME;
    if (!loads || !header->p_memsz)
        return;
    if (!file->high || header->p_vaddr < file->low)
        file->low = header->p_vaddr;
    if (end > file->high)
        file->high = end;
}

static void read_wide_headers(struct elf_file *file, int fd, const Elf64_Ehdr *head)
{
    Elf64_Phdr header;
    for (unsigned i = 0; i < head->e_phnum && i < ELF_FILE_HEADERS; i++)
        if (read_at(fd, &header, sizeof header, head->e_phoff + i * sizeof header))
            take_header(file, &header);
}

static void read_narrow_headers(struct elf_file *file, int fd, const Elf32_Ehdr *head)
{
    Elf32_Phdr narrow;
    for (unsigned i = 0; i < head->e_phnum && i < ELF_FILE_HEADERS; i++) {
        if (!read_at(fd, &narrow, sizeof narrow, head->e_phoff + i * sizeof narrow))
            continue;
        const Elf64_Phdr header = {
            .p_type = narrow.p_type,
            .p_flags = narrow.p_flags,
            .p_offset = narrow.p_offset,
            .p_vaddr = narrow.p_vaddr,
            .p_filesz = narrow.p_filesz,
            .p_memsz = narrow.p_memsz,
        };
        take_header(file, &header);
    }
}

static bool lies_inside(const struct elf_file *file, const Elf64_Shdr *section)
{
    return section->sh_flags & SHF_ALLOC && section->sh_addr >= file->low &&
           section->sh_addr <= file->high && section->sh_size <= file->high - section->sh_addr;
}

static void take_section(struct elf_file *file, const char *name, const Elf64_Shdr *section)
{
    if (!lies_inside(file, section))
        return;
    if (!strcmp(name, ".eh_frame") && section->sh_size) {
        file->eh_frame = section->sh_addr;
        file->eh_frame_offset = section->sh_offset;
        file->eh_frame_bytes = section->sh_size;
    } else if (!strcmp(name, ".text")) {
        file->text = section->sh_addr;
    }
}

static void read_sections(struct elf_file *file, int fd, const Elf64_Ehdr *head)
{
    Elf64_Shdr names, section;
    char name[16];
    if (head->e_shentsize != sizeof section || head->e_shnum > SECTIONS_MOST ||
        head->e_shstrndx >= head->e_shnum ||
        !read_at(fd, &names, sizeof names, head->e_shoff + head->e_shstrndx * sizeof names))
        return;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        memset(name, 0, sizeof name);
        if (!read_at(fd, &section, sizeof section, head->e_shoff + i * sizeof section) ||
            section.sh_name >= names.sh_size ||
            pread(fd, name, sizeof name - 1, (off_t)(names.sh_offset + section.sh_name)) <= 0)
            continue;
        take_section(file, name, &section);
    }
}

void elf_file_read(struct elf_file *file, int fd)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } head;
    memset(file, 0, sizeof *file);
    memset(&head, 0, sizeof head);
    if (pread(fd, &head, sizeof head, 0) < (ssize_t)sizeof head.narrow ||
        memcmp(head.ident, ELFMAG, SELFMAG) != 0)
        return;
    file->is_elf = true;
    file->is_narrow = head.ident[EI_CLASS] == ELFCLASS32;
    if (file->is_narrow && head.narrow.e_phentsize == sizeof(Elf32_Phdr))
        read_narrow_headers(file, fd, &head.narrow);
    if (head.ident[EI_CLASS] != ELFCLASS64 || head.wide.e_machine != OUR_MACHINE ||
        head.wide.e_phentsize != sizeof(Elf64_Phdr))
        return;
    read_wide_headers(file, fd, &head.wide);
    file->is_wide = file->high != 0;
    read_sections(file, fd, &head.wide);
}
