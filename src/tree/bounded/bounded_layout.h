// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_BOUNDED_BOUNDED_LAYOUT_H
#define CAIRN_TREE_BOUNDED_BOUNDED_LAYOUT_H

// How a bounded tree lies in its arena; for bounded*.c alone.
//
//   struct bounded ── first_block ─► [head|root] ─next─► the buffer, taken at the first sample:
//
//   [ node_block head | nodes ... | edges ... | uses of edges | edge slots | node slots ]
//
// A node is a struct node with three values: the two that readers see, and a pair of links. Its
// `child` is not a reference but the number of its children, and its `sibling` leads on in the
// chain of a hash over (parent, edge), or to the next free node. So there is no large fan-out to
// care for, and what can be forgotten (a node without children) is known at a glance.
//
// Edges are interned. A node more or less is a use more or less; an edge without uses stays where
// it is until the edges run out. Then all unused ones become free at once, and `edge_epoch` changes
// for readers.
//
// Age. Every touched node moves to the young end of one list. At the old end the first leaf goes.
// A node with children that comes to the old end is taken out of the list, and put back there when
// its last child has gone: in constant time, and no leaf is forgotten before an older one.

#include "tree/bounded/bounded.h"
#include "tree/layout.h"

enum {
    BOUNDED_COST,  // values of a node: the cost of the context itself,
    BOUNDED_EDGE,  // the weight of the edge that leads to it,
    BOUNDED_LINKS, // and its neighbours in the list by age
    BOUNDED_STRIDE,
    BOUNDED_TOLD = BOUNDED_LINKS, // of those, for readers
};

struct links {
    ref_t previous, next;
};

struct bounded {
    struct tree tree; // for readers of any tree, and tree.c; edges are not kept there
    struct edge root_edge;
    uint64_t bytes;
    uint32_t purge;              // enum tree_purge
    uint32_t refused;            // there was no room for the buffer in the arena
    _Atomic uint32_t edge_epoch; // the owner writes
    _Atomic uint64_t purged;     // the owner writes
    // Written once, capacity last and with release; 0: no buffer yet.
    ref_t block;
    ref_t nodes; // the first one
    ref_t edges;
    ref_t edge_uses;                           // uint32_t each
    ref_t edge_slots;                          // open addressing, references of edges
    ref_t node_slots;                          // heads of chains
    uint32_t edge_slot_count, node_slot_count; // powers of two
    uint32_t edge_capacity;
    _Atomic uint32_t capacity;
    // The owner's alone.
    uint32_t next_node; // never used since the last purge, from this index on
    ref_t free_node;
    uint32_t live_nodes;
    uint32_t next_edge;
    ref_t free_edge;
    uint32_t free_edges;
    uint32_t live_edges; // with uses
    ref_t youngest, oldest;
};

static inline struct bounded *bounded_at(const struct arena *arena, ref_t tree)
{
    return arena_at(arena, tree);
}

static inline ref_t bounded_node_units(void)
{
    return (ref_t)(tree_node_bytes(BOUNDED_STRIDE) / 8);
}

static inline struct links *bounded_links(struct node *node)
{
    return (struct links *)&node->value[BOUNDED_LINKS];
}

// The node behind a reference of the writer's own; NULL where the program has scribbled over it.
static inline struct node *bounded_node(const struct arena *arena, const struct bounded *bounded,
                                        ref_t ref)
{
    const ref_t span =
        atomic_load_explicit(&bounded->capacity, memory_order_relaxed) * bounded_node_units();
    if (ref < bounded->nodes || ref - bounded->nodes >= span)
        return ref && ref == bounded->tree.root ? arena_at(arena, ref) : NULL;
    return arena_at(arena, ref);
}

// False where the program has scribbled over what says how large things are, and where.
static inline bool bounded_is_whole(const struct arena *arena, const struct bounded *bounded)
{
    const uint64_t nodes = atomic_load_explicit(&bounded->capacity, memory_order_relaxed);
    return bounded->next_node <= nodes && bounded->next_edge <= bounded->edge_capacity &&
           arena_find(arena, bounded->nodes, nodes * tree_node_bytes(BOUNDED_STRIDE)) &&
           arena_find(arena, bounded->block, sizeof(struct node_block)) &&
           arena_find(arena, bounded->tree.root, tree_node_bytes(BOUNDED_STRIDE)) &&
           arena_find(arena, bounded->edges,
                      (uint64_t)bounded->edge_capacity * sizeof(struct edge)) &&
           arena_find(arena, bounded->edge_uses,
                      (uint64_t)bounded->edge_capacity * sizeof(uint32_t)) &&
           arena_find(arena, bounded->edge_slots,
                      (uint64_t)bounded->edge_slot_count * sizeof(ref_t)) &&
           arena_find(arena, bounded->node_slots,
                      (uint64_t)bounded->node_slot_count * sizeof(ref_t));
}

static inline uint32_t bounded_mix(uint64_t value)
{
    return (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

// bounded_buffer.c: takes the buffer from the arena. False if there is no room, now and later.
bool bounded_lay_out(struct arena *arena, struct bounded *bounded);

// bounded_edges.c: the edge, interned; 0 when there is no room. `use` and `drop` count its nodes.
ref_t bounded_edge(const struct arena *arena, struct bounded *bounded, place_t site,
                   place_t function);
ref_t bounded_find_edge(const struct arena *arena, const struct bounded *bounded, place_t site,
                        place_t function);
void bounded_use_edge(const struct arena *arena, struct bounded *bounded, ref_t edge);
void bounded_drop_edge(const struct arena *arena, struct bounded *bounded, ref_t edge);
uint32_t bounded_edges_left(const struct bounded *bounded);
void bounded_collect_edges(const struct arena *arena, struct bounded *bounded);
void bounded_forget_edges(const struct arena *arena, struct bounded *bounded);

#endif
