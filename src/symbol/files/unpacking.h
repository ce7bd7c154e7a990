// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_UNPACKING_H
#define CAIRN_SYMBOL_FILES_UNPACKING_H

// Bounds what compressed sections unpack to: a small file must not take all memory.

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

// Sums over all files that one module is read from.
struct unpacking {
    uint64_t stored, unpacked; // bytes
};

// Adds the compressed sections of a file, by what they say of themselves.
void unpacking_add(struct unpacking *sum, Elf *elf);
// Whether honest debug information of that size may become as large.
bool unpacking_is_modest(const struct unpacking *sum);

#endif
