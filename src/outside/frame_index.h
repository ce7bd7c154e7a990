// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_FRAME_INDEX_H
#define CAIRN_OUTSIDE_FRAME_INDEX_H

// An index of unwind tables, as the linker makes one for programs that are not static: where each
// function begins, and its FDE, in order. Without one, a search goes through all of .eh_frame.

#include "outside/elf_file.h"
#include <stddef.h>

struct frame_index_entry {
    uint64_t function, fde; // virtual addresses
};

struct frame_index {
    struct frame_index_entry *entries; // to be freed
    size_t count;
};

// Reads .eh_frame of a file. Empty if that is damaged, or written in an unusual way.
void frame_index_read(struct frame_index *index, const struct elf_file *file, int fd);

#endif
