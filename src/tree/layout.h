// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_LAYOUT_H
#define CAIRN_TREE_LAYOUT_H

// How a tree lies in its arena; for tree.c (the writer) and scan.c (the reader) alone.
//
//   struct tree ── first_block ─► [head|node|node|...] ─next─► [head|node|... twice as many] ─► ...
//               ── reserve ─────► [head|16 nodes]  joins the end of that chain when the arena is
//               full ── edge_slots ──► open-addressing hash of edge references (a larger one
//               replaces it)
//                                 edges themselves lie in arrays, wherever there was room
//
//   node.child ─► first child, whose siblings form a list, or
//              ─► struct fanout, a hash of (edge, node): told apart by the first word, which is a
//                 node's edge and never 0, and always 0 in a fanout.

#include "tree/tree.h"

#define TREE_MOST_METRICS 16

struct tree {
    _Atomic ref_t first_block; // struct node_block; the owner writes it once, last
    uint32_t metrics;
    _Atomic uint64_t nodes;
    ref_t root;
    uint32_t kind;            // enum tree_kind
    _Atomic uint32_t forgets; // nodes come and go: always, or since the arena was full
    ref_t more;               // what a kind other than full keeps besides
    // What follows is the writer's alone.
    ref_t root_unplaced;
    ref_t last_block;
    ref_t reserve; // block for unplaced statements when the arena is full
    ref_t unplaced_edge;
    ref_t edge_slots;
    uint32_t edge_slot_count; // a power of two
    uint32_t edge_count;
    ref_t next_edge;
    uint32_t edges_left;      // unused ones at next_edge
    uint32_t edge_block_size; // how many the newest array has
    uint32_t full;            // the arena had no room for another node block
};

struct node_block {
    _Atomic ref_t next;
    uint32_t metrics;
    uint32_t capacity;
    _Atomic uint32_t used; // nodes that are published
};

struct child_slot {
    ref_t edge, node;
};

struct fanout {
    uint32_t zero;
    uint32_t slot_count; // a power of two
    uint32_t count;
    ref_t unplaced;
    struct child_slot slots[];
};

static inline size_t tree_node_bytes(unsigned metrics)
{
    return sizeof(struct node) + metrics * sizeof(uint64_t);
}

static inline ref_t tree_node_in_block(ref_t block, unsigned metrics, uint32_t index)
{
    return block + (ref_t)(sizeof(struct node_block) / 8 + index * (tree_node_bytes(metrics) / 8));
}

#endif
