// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_ELF_FILE_H
#define CAIRN_OUTSIDE_ELF_FILE_H

// The parts of an ELF file that its mirror is made by. Anybody may have written the file: numbers
// are checked before they are used.

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#define ELF_FILE_HEADERS 64

struct elf_file {
    bool is_elf;
    bool is_narrow; // for 32 bits
    bool is_wide;   // for this machine
    unsigned header_count;
    Elf64_Phdr headers[ELF_FILE_HEADERS]; // those of 32 bits too, widened
    uint64_t low, high;                   // virtual addresses of all segments
    bool has_index;                       // of its unwind tables
    uint64_t eh_frame_offset;             // in the file
    uint64_t eh_frame, eh_frame_bytes; // 0: none, or the file does not say where its sections are
    uint64_t text;                     // of the section of that name; 0
};

// Empty if it is none.
void elf_file_read(struct elf_file *file, int fd);

#endif
