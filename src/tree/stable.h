// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_STABLE_H
#define CAIRN_TREE_STABLE_H

// Reading a tree whose nodes come and go while it is read.
//
// A full tree only grows, and tree_scan() reads it in one pass. A tree that forgets gives a node's
// place to another context at any moment, so that a node read now may point to a parent which was
// something else a moment ago. The writer cannot be asked to wait, and so:
//
//   first copy    [A|B|C|D|E]     edge and parent of every node
//   second copy   [A|B|X|D|E]     the same once more, and the values
//                      └─ differs: C left or X came. Left out, with all that hangs below it.
//
// All of the first copy is read before any of the second, so a path whose nodes are the same in
// both stood in the tree when the one ended and the other began. (A node that was given away and
// came back in between, to the same place, is the same context again.) Nodes that are left out came
// or went within the microseconds of reading. Hot contexts are hardly ever among them, and the next
// reading has them. When the tree has no writer any more, a reading is exact.
//
// Whether a node is monitored may change at any moment, and it is still the same node.
//
// Memory comes from the caller, all functions are lock-free and use no libc: the agent may read its
// own trees with them, and the tool those in the live memory. Nothing that is found there is
// trusted.

#include "tree/tree.h"

#define STABLE_VALUES 2 // that are read of a node: its count, and what bounds it

// One context. They come in an order in which every parent stands before its children.
struct stable_node {
    ref_t edge;      // without TREE_UNMONITORED
    uint32_t parent; // index of another node; STABLE_NO_PARENT: the root, which is node 0
    ref_t ref;       // where it lies
    uint32_t monitored : 1;
    uint32_t has_error : 1; // has a second value at all
    uint32_t state : 30;    // while it is read: how far its path to the root is known
    uint64_t value[STABLE_VALUES];
};

#define STABLE_NO_PARENT UINT32_MAX

struct stable_tree {
    uint32_t count;
    uint32_t left_out; // nodes that were not the same in both copies
    struct stable_node *nodes;
    uint32_t *order;
};

static inline const struct stable_node *stable_at(const struct stable_tree *tree, uint32_t index)
{
    return &tree->nodes[tree->order[index]];
}

// Bytes of memory that a reading may need, for all nodes that the tree has room for now; 0 if it is
// being made; -EBADMSG if it is damaged.
int64_t stable_bytes(const struct arena *arena, uint64_t arena_bytes, ref_t tree);

// Reads the tree into `memory` (aligned for a uint64_t; need not be zero). Nodes that find no room
// there are left out. 0 (and no node if the tree is being made), -EBADMSG for a damaged tree, or
// -ENOMEM.
int stable_read(struct stable_tree *stable, const struct arena *arena, uint64_t arena_bytes,
                ref_t tree, void *memory, size_t memory_bytes);

#endif
