// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_BLOCK_WALK_H
#define CAIRN_TREE_BLOCK_WALK_H

// The blocks of a tree, for readers that trust nothing: the program that is profiled may write
// anything there at any time. Lock-free, without libc.

#include "tree/layout.h"

static inline bool is_inside(uint64_t arena_bytes, ref_t ref, uint64_t bytes)
{
    return ref != 0 && (uint64_t)ref * 8 + bytes <= arena_bytes;
}

// Nodes that lie one behind the other, all inside of the arena.
struct block_run {
    ref_t start;
    uint32_t count;
    uint32_t metrics; // values of each, at least one
};

static inline ref_t tree_node_of_run(const struct block_run *run, uint32_t index)
{
    return run->start + (ref_t)(index * (tree_node_bytes(run->metrics) / 8));
}

// Calls visit() with each block of nodes, in the order they were made, until it returns false. 0,
// or -EBADMSG; 1: visit() had enough.
int tree_each_run(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                  bool (*visit)(void *context, const struct block_run *run), void *context);

#endif
