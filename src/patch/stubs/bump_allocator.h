// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUBS_BUMP_ALLOCATOR_H
#define CAIRN_PATCH_STUBS_BUMP_ALLOCATOR_H

// Memory for what is known of code, and a table of addresses in it. One writer at a time, in a
// transaction, and any number of readers, which take no lock.

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed, aligned to 16; NULL if there is none.
void *bump_take(size_t bytes);
// Gives back what was taken with so many bytes: of code that is unloaded, so that no reader finds
// it. NULL: nothing happens.
void bump_give_back(void *memory, size_t bytes);
uint64_t bump_bytes(void);

struct address_table;

// From an address to what was put there. A table that has grown leaves its old form to readers.
struct address_index {
    struct address_table *_Atomic table; // published with release when its contents are whole
};

void *index_find(const struct address_index *index, uintptr_t address);     // signal-safe
int index_put(struct address_index *index, uintptr_t address, void *value); // NULL forgets

#endif
