// SPDX-License-Identifier: MIT
#include "base/system/program.h"
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

// The piece of the file that was read last: the next question is mostly about bytes beside it.
struct piece {
    int file;
    uint64_t offset, bytes;
    char data[1024];
};

// As much as there is of so many bytes, which fit into a piece.
static size_t read_some(struct piece *piece, void *buffer, size_t bytes, uint64_t offset)
{
    if (offset < piece->offset || offset + bytes > piece->offset + piece->bytes ||
        offset + bytes < offset) {
        const long got = syscall(SYS_pread64, piece->file, piece->data, sizeof piece->data, offset);
        piece->offset = offset;
        piece->bytes = got > 0 ? (uint64_t)got : 0;
    }
    const uint64_t there = piece->offset + piece->bytes - offset;
    const size_t copied = there < bytes ? (size_t)there : bytes;
    memcpy(buffer, piece->data + (offset - piece->offset), copied);
    return copied;
}

static bool read_at(struct piece *piece, void *buffer, size_t bytes, uint64_t offset)
{
    return read_some(piece, buffer, bytes, offset) == bytes;
}

static void read_text(struct piece *piece, char *text, size_t bytes, uint64_t offset)
{
    text[read_some(piece, text, bytes - 1, offset)] = 0;
}

static bool read_segment(struct piece *piece, const Elf64_Ehdr *head, unsigned index,
                         Elf64_Phdr *segment)
{
    return read_at(piece, segment, sizeof *segment,
                   head->e_phoff + (uint64_t)index * head->e_phentsize);
}

// Where the byte at an address lies in the file; 0: nowhere.
static uint64_t offset_of(struct piece *piece, const Elf64_Ehdr *head, uint64_t address)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum && i < SEGMENTS_MOST; i++)
        if (read_segment(piece, head, i, &segment) && segment.p_type == PT_LOAD &&
            address - segment.p_vaddr < segment.p_filesz)
            return address - segment.p_vaddr + segment.p_offset;
    return 0;
}

// Of the runtimes that compilers link, AddressSanitizer alone ends the process unless it is the
// first library. Nothing in a file says so but the name that the compiler gives to it.
static bool is_sanitizer(const char *library)
{
    return !strncmp(library, "libasan.so", 10) || !strncmp(library, "libclang_rt.asan", 16);
}

static void read_libraries(struct piece *piece, const Elf64_Ehdr *head, const Elf64_Phdr *dynamic,
                           struct program *program)
{
    uint64_t names[NEEDED_MOST] = {0}, table = 0;
    unsigned count = 0;
    Elf64_Dyn entry = {.d_tag = DT_NULL};
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
        if (!read_at(piece, &entry, sizeof entry, dynamic->p_offset + at))
            return;
        if (entry.d_tag == DT_NULL)
            break;
        program->is_library |= entry.d_tag == DT_SONAME;
        if (entry.d_tag == DT_STRTAB)
            table = entry.d_un.d_ptr;
        if (entry.d_tag == DT_NEEDED && count < NEEDED_MOST)
            names[count++] = entry.d_un.d_val;
    }
    program->needs_no_library = count == 0 && entry.d_tag == DT_NULL;
    const uint64_t strings = count ? offset_of(piece, head, table) : 0;
    for (unsigned i = 0; strings && i < count && !program->needs_sanitizer; i++) {
        char name[32];
        read_text(piece, name, sizeof name, strings + names[i]);
        program->needs_sanitizer = is_sanitizer(name);
    }
}

static void read_elf(struct piece *piece, const Elf64_Ehdr *head, struct program *program)
{
    program->kind = PROGRAM_ELF;
    program->is_narrow = head->e_ident[EI_CLASS] == ELFCLASS32;
    program->is_foreign = head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != OUR_MACHINE;
    for (unsigned i = 0; i < head->e_phnum && !program->is_foreign; i++) {
        Elf64_Phdr segment;
        if (!read_segment(piece, head, i, &segment)) {
            program->is_damaged = true;
            return;
        }
        if (segment.p_type == PT_INTERP) {
            const size_t bytes = segment.p_filesz < sizeof program->name ? segment.p_filesz + 1
                                                                         : sizeof program->name;
            read_text(piece, program->name, bytes, segment.p_offset);
            program->has_long_name = segment.p_filesz > sizeof program->name;
            program->is_damaged |= !program->name[0];
        }
        if (segment.p_type == PT_DYNAMIC)
            read_libraries(piece, head, &segment, program);
    }
    // The name of its loader is all that says which C library a program is for: versions of
    // symbols, which would, are what musl does without.
    program->needs_musl = strstr(program->name, "musl");
    program->needs_no_library &= program->name[0] != 0;
}

void program_read(int file, struct program *program)
{
    union head head;
    struct piece piece;
    piece.file = file;
    piece.offset = piece.bytes = 0;
    memset(program, 0, sizeof *program);
    const size_t bytes = read_some(&piece, &head, sizeof head - 1, 0);
    if (bytes > 2 && !memcmp(head.text, "#!", 2)) {
        head.text[bytes] = 0;
        const char *name = head.text + 2 + strspn(head.text + 2, " \t");
        const size_t length = strcspn(name, " \t\r\n");
        program->kind = PROGRAM_SCRIPT;
        memcpy(program->name, name, length);
    } else if (bytes >= sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG)) {
        read_elf(&piece, &head.elf, program);
    }
}
