// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_ENTRIES_ENTRIES_LIST_H
#define CAIRN_PATCH_ENTRIES_ENTRIES_LIST_H

// The list of a module's entries that the compiler has left, for entries.c alone. In normal
// context.

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where it lies in memory. The section is read from the file: it is not in the program headers.
// NULL: there is none.
const uintptr_t *entries_list(const struct dl_phdr_info *info, size_t *count);

// The list as it is once the loader has relocated the module.
void entries_relocate(const struct dl_phdr_info *info, const uintptr_t *list, size_t count,
                      uintptr_t *entries);

// True if the bytes lie in a segment with these flags (PF_R, PF_X).
bool entries_in_segment(const struct dl_phdr_info *info, uintptr_t address, size_t bytes,
                        unsigned flags);

#endif
