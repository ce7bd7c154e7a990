// SPDX-License-Identifier: MIT
#include "base/program.h"
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

#define SEGMENTS_MOST 128
#define NEEDED_MOST 64

union head {
    Elf64_Ehdr elf;
    char text[PROGRAM_NAME_MAX];
};

static bool read_at(int file, void *buffer, size_t bytes, uint64_t offset)
{
    return syscall(SYS_pread64, file, buffer, bytes, offset) == (long)bytes;
}

// As much of a text as there is, up to so many bytes, with an end.
static void read_text(int file, char *text, size_t bytes, uint64_t offset)
{
    const long got = syscall(SYS_pread64, file, text, bytes - 1, offset);
    text[got > 0 ? got : 0] = 0;
}

static bool read_segment(int file, const Elf64_Ehdr *head, unsigned index, Elf64_Phdr *segment)
{
    return read_at(file, segment, sizeof *segment,
                   head->e_phoff + (uint64_t)index * head->e_phentsize);
}

// Where the byte at an address lies in the file; 0: nowhere.
static uint64_t offset_of(int file, const Elf64_Ehdr *head, uint64_t address)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum && i < SEGMENTS_MOST; i++)
        if (read_segment(file, head, i, &segment) && segment.p_type == PT_LOAD &&
            address - segment.p_vaddr < segment.p_filesz)
            return address - segment.p_vaddr + segment.p_offset;
    return 0;
}

static bool is_sanitizer(const char *library)
{
    return !strncmp(library, "libasan.so", 10) || !strncmp(library, "libclang_rt.asan", 16);
}

static void read_libraries(int file, const Elf64_Ehdr *head, const Elf64_Phdr *dynamic,
                           struct program *program)
{
    uint64_t names[NEEDED_MOST] = {0}, table = 0;
    unsigned count = 0;
    Elf64_Dyn entry = {.d_tag = DT_NULL};
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
        if (!read_at(file, &entry, sizeof entry, dynamic->p_offset + at))
            return;
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_STRTAB)
            table = entry.d_un.d_ptr;
        if (entry.d_tag == DT_NEEDED && count < NEEDED_MOST)
            names[count++] = entry.d_un.d_val;
    }
    program->needs_no_library = count == 0 && entry.d_tag == DT_NULL;
    for (unsigned i = 0; i < count && !program->needs_sanitizer; i++) {
        char name[32];
        const uint64_t offset = offset_of(file, head, table + names[i]);
        if (offset) {
            read_text(file, name, sizeof name, offset);
            program->needs_sanitizer = is_sanitizer(name);
        }
    }
}

static void read_elf(int file, const Elf64_Ehdr *head, struct program *program)
{
    program->kind = PROGRAM_ELF;
    program->is_narrow = head->e_ident[EI_CLASS] == ELFCLASS32;
    program->is_foreign = head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != OUR_MACHINE;
    for (unsigned i = 0; i < head->e_phnum && !program->is_foreign; i++) {
        Elf64_Phdr segment;
        if (!read_segment(file, head, i, &segment)) {
            program->is_damaged = true;
            return;
        }
        if (segment.p_type == PT_INTERP) {
            const size_t bytes = segment.p_filesz < sizeof program->name ? segment.p_filesz + 1
                                                                         : sizeof program->name;
            read_text(file, program->name, bytes, segment.p_offset);
            program->is_damaged |= !program->name[0];
        }
        if (segment.p_type == PT_DYNAMIC)
            read_libraries(file, head, &segment, program);
    }
    program->needs_musl = strstr(program->name, "musl");
    program->needs_no_library &= program->name[0] != 0;
}

void program_read(int file, struct program *program)
{
    union head head;
    memset(program, 0, sizeof *program);
    const long bytes = syscall(SYS_pread64, file, &head, sizeof head - 1, 0);
    if (bytes > 2 && !memcmp(head.text, "#!", 2)) {
        head.text[bytes] = 0;
        const char *name = head.text + 2 + strspn(head.text + 2, " \t");
        const size_t length = strcspn(name, " \t\r\n");
        program->kind = PROGRAM_SCRIPT;
        memcpy(program->name, name, length);
    } else if (bytes >= (long)sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG)) {
        read_elf(file, &head.elf, program);
    }
}
