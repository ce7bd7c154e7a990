// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_UNPACKED_H
#define CAIRN_SYMBOL_FILES_UNPACKED_H

// The compressed debug information of a file, unpacked in memory. libdeflate takes a third of the
// time of libdw's zlib, sections without lines are left out, and any version of libdw can read zstd
// then.

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>

struct unpacked {
    Elf *elf; // with the sections of DWARF alone; NULL: not open
    void *image;
    size_t bytes;
};

enum unpacked_result { UNPACKED, UNPACKED_NOT_NEEDED, UNPACKED_DAMAGED };

// Sizes are believed: see unpacking_is_modest().
enum unpacked_result unpacked_open(struct unpacked *unpacked, Elf *elf);
void unpacked_close(struct unpacked *unpacked);

#endif
