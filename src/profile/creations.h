// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_CREATIONS_H
#define CAIRN_PROFILE_CREATIONS_H

// The calls that created threads (struct profile_creation): a table of a profile that is being
// made, in which equal paths are the same; and the chunk that has it in a file.

#include "profile/loader.h"
#include "profile/write_records.h"

struct creation_table {
    struct profile_creation *steps; // capacity as profile_grow() has it
    uint32_t count;
    uint32_t *slots; // hash: index + 1; 0: free
    size_t slot_count;
};

void creation_table_free(struct creation_table *table);

// The index of a step, added if it is new; UINT32_MAX: no memory.
uint32_t creation_table_add(struct creation_table *table, const struct profile_creation *step);

// Into the file: a step, and which call created the threads of a tree (profile_tree.creator).
void creations_put_step(struct batch *batch, uint32_t index, const struct profile_creation *step);
void creations_put_tree(struct batch *batch, uint32_t tree, uint32_t creator);

// Takes one record in. False: it makes no sense, or memory is out.
bool creations_take(struct loader *loader, struct cursor *cursor);

// After the last record: trees that name no call have none that is known.
void creations_check(struct profile *profile);

#endif
