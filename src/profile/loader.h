// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_LOADER_H
#define CAIRN_PROFILE_LOADER_H

// A profile that grows from chunks. Nothing in a file is believed. An index may be beyond the known
// ones, because a damaged chunk was skipped; then a placeholder fills the gap. Placeholders are
// limited by how much was lost, so a malicious file cannot take all memory.

#include "profile/chunks/chunk.h"
#include "profile/profile.h"

struct loader {
    struct profile *profile;
    const struct chunk_scan *scan; // how much was lost so far
    uint64_t placeholders;         // made so far
    uint64_t lost_nodes;           // that stand for nodes of damaged chunks
    uint64_t lost_values;          // that belong to such nodes
    unsigned top_module;           // highest one that a place names
    uint64_t memory_budget;        // bytes that the profile may still take
    bool has_session;
    bool out_of_memory;
    bool too_large; // the budget is used up
};

// The memory that a profile may take, beside what its file may unpack to (chunk.h), for a record
// can be much smaller than its result: a fixed part, and so many times its size. Nodes take at most
// eight times their bytes, and these are at most 32 times those in the file. Processes and trees
// take about 80 times theirs; where many are alike, these are at most twice those in the file.
enum {
    MEMORY_FREE = 64 << 20,
    MEMORY_RATIO = 8 * UNPACK_RATIO_WRITTEN,
};

// Takes so many bytes from the budget. False: there are not as many left.
bool loader_charge(struct loader *loader, uint64_t bytes);

// profile_grow(), charged.
bool loader_grow(struct loader *loader, void *array, size_t count, size_t wanted, size_t each);

// Takes one chunk in. False: its content makes no sense (or memory is out).
bool loader_take(struct loader *loader, struct chunk *chunk);

// A process, made if a gap can be explained by what was lost; NULL: it cannot, or memory is out.
struct profile_process *loader_process(struct loader *loader, uint32_t index);

// A node whose chunk was lost: a function of which nothing is known.
#define LOST_FUNCTION PLACE_UNKNOWN

// Growing arrays whose capacity is the next power of two of their count. False: out of memory.
bool profile_grow(void **array, size_t count, size_t wanted, size_t each);
// For one more: most of the time there is room, for capacities are powers of two.
static inline bool profile_grow_by_one(void **array, size_t count, size_t each)
{
    return (count & (count - 1)) != 0 || profile_grow(array, count, count + 1, each);
}
// New nodes are 0.
bool profile_grow_tree(struct profile_tree *tree, uint32_t wanted, unsigned metrics);

// Gives each node of a tree more values, which are 0. False: out of memory.
bool profile_widen_tree(struct profile_tree *tree, unsigned metrics, unsigned wanted);

#endif
