// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_LAYOUT_H
#define CAIRN_TREE_LAYOUT_H

// How a tree lies in its arena; for the files of this room alone.
//
//   struct tree ── first_block ─► [head|node|node|...] ─next─► [head|node|... twice as many] ─► ...
//               ── reserve ─────► [head|16 nodes]  joins that chain when the arena is full
//               ── edge_slots ──► open-addressing hash of edge references, replaced by a larger one;
//                                 edges themselves lie in arrays, wherever there was room
//               ── more ────────► struct hot, of a tree that forgets cold contexts (hot.h)
//
//   node.child ─► first child, whose siblings form a list, or
//              ─► struct fanout, a hash of (edge, node): told apart by the second word, which is a
//                 node's edge and never 0, and always 0 in a fanout.
//
// Nodes of exact contexts lie below `hot_from`, and stay for good. Those from there on have two
// values and are given to other contexts when theirs has grown cold.

#include "tree/tree.h"

#define TREE_MOST_METRICS 40

struct tree {
    _Atomic ref_t first_block; // struct node_block; the owner writes it once, last
    uint32_t metrics;
    ref_t root;
    uint32_t kind;            // enum tree_kind
    _Atomic uint32_t forgets; // nodes come and go: always, or since the arena was full
    ref_t more;               // further state of a kind other than full
    // The fields below are for the writer alone.
    ref_t hot_from; // nodes from here on come and go
    ref_t root_unplaced;
    ref_t last_block; // of exact nodes
    ref_t tail;       // of the chain of all blocks
    ref_t reserve;    // block for unplaced statements when the arena is full
    ref_t unplaced_edge;
    ref_t edge_slots;
    uint32_t edge_slot_count; // a power of two
    uint32_t edge_count;
    ref_t next_edge;
    uint32_t edges_left;      // unused ones at next_edge
    uint32_t edge_block_size; // how many the newest array has
    uint32_t full;            // the arena had no room for another block
};

struct node_block {
    _Atomic ref_t next;
    uint32_t metrics;
    uint32_t capacity;
    _Atomic uint32_t used; // nodes that are published
};

// Whether a chain of blocks is a cycle, after Brent: each is compared with one that lies ever
// further back.
struct tree_chain {
    ref_t mark;
    uint32_t steps, most;
};

static inline bool tree_chain_repeats(struct tree_chain *chain, ref_t at)
{
    if (at == chain->mark)
        return true;
    if (chain->steps++ == chain->most) {
        chain->mark = at;
        chain->most = chain->most * 2 + 1;
        chain->steps = 0;
    }
    return false;
}

struct child_slot {
    ref_t edge, node;
};

struct fanout {
    uint32_t slot_count; // a power of two
    uint32_t zero;
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

static inline struct tree *tree_at(const struct arena *arena, ref_t tree)
{
    return arena_at(arena, tree);
}

static inline struct node *tree_node(const struct arena *arena, ref_t node)
{
    return arena_at(arena, node);
}

static inline uint32_t tree_mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(value >> 32);
}

// How a kind of tree does what tree.h says; tree.c has the table.
struct tree_functions {
    struct tree_traits traits;
    ref_t (*make)(struct arena *arena, const struct tree_options *options);
    // In a tree that forgets.
    ref_t (*child)(struct arena *arena, ref_t tree, ref_t parent, ref_t edge);
    ref_t (*call)(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount);
    void (*charge)(struct arena *arena, ref_t tree, ref_t node, uint64_t amount);
    void (*pin)(struct arena *arena, ref_t tree, ref_t node); // NULL: nothing need be kept

    ref_t (*unplaced)(struct arena *arena, ref_t tree, ref_t frame);
    bool charges_late; // an addition by another thread is right, in nodes that are not free
};

static inline bool tree_is_forgetting(const struct tree *tree)
{
    return atomic_load_explicit(&tree->forgets, memory_order_relaxed) != 0;
}

// Without memset(), which may use vector registers: those hold a function's arguments when a hook
// comes here.
static inline void tree_clear(void *memory, size_t bytes)
{
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED); // which the compiler leaves as it is
}

// nodes.c. Memory for a tree: a head and at most *count records, fewer if there is no more room. A
// full tree that finds none at all continues as one that forgets, in the part that is kept back. 0:
// no room.
ref_t tree_records(struct arena *arena, ref_t tree, size_t head, size_t each, uint32_t *count);

// Memory for something that is of use in one piece only, and not needed to go on. 0: no room.
ref_t tree_whole(struct arena *arena, ref_t tree, size_t bytes);

// Blocks of nodes. Appended ones are found by readers.
// Exact ones lie in the common part of the arena.
ref_t tree_block_new(struct arena *arena, ref_t tree, unsigned metrics, uint32_t capacity,
                     bool exact);
void tree_block_append(struct arena *arena, ref_t tree, ref_t block);

static inline bool tree_block_is_full(const struct arena *arena, ref_t ref)
{
    const struct node_block *block = arena_at(arena, ref);
    return atomic_load_explicit(&block->used, memory_order_relaxed) >= block->capacity;
}

// The next node of a block that is not full.
static inline ref_t tree_node_new(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    struct node_block *block = arena_at(arena, ref);
    uint32_t used = atomic_load_explicit(&block->used, memory_order_relaxed);
    ref_t node = tree_node_in_block(ref, block->metrics, used);
    tree_node(arena, node)->edge = edge;
    tree_node(arena, node)->parent = parent;
    // The owner writes, scanning readers read. Release: a reader that sees the count sees the
    // node's key.
    atomic_store_explicit(&block->used, used + 1, memory_order_release);
    return node;
}

// edges.c: the first edges of a new tree.
bool tree_edges_start(struct arena *arena, ref_t tree);

// children.c: the children of a node.
//
// The program may have scribbled over what is followed here: each search ends after so many steps,
// which none takes in a tree that is whole.
enum {
    TREE_LONGEST_LIST = 256,    // of children, without a hash
    TREE_LONGEST_PROBE = 65536, // in a hash that is open-addressed
    TREE_FURTHEST = 4096,       // upwards, for a node that can take a cost
};

// Measured (bench/tree_children.c): move-to-front beats a plain list from four children on, and
// from about eight a hash is as fast; a few more in the list save the memory of most hashes.
#define TREE_LIST_CHILDREN 12

static inline bool tree_has_hash(const struct arena *arena, const struct node *parent)
{
    return parent->child && tree_node(arena, parent->child)->edge == 0;
}

// In a list; *length: of what was searched, *last: its end, if it was searched in vain.
static inline ref_t tree_find_in_list(struct arena *arena, struct node *parent, ref_t edge,
                                      uint32_t *length, ref_t *last)
{
    ref_t before = 0;
    for (ref_t child = parent->child; child && *length < TREE_LONGEST_LIST;
         child = tree_node(arena, child)->sibling) {
        if (tree_node_edge(tree_node(arena, child)) == edge) {
            if (before) { // to the front: the next event most likely asks for it again
                tree_node(arena, before)->sibling = tree_node(arena, child)->sibling;
                tree_node(arena, child)->sibling = parent->child;
                parent->child = child;
            }
            return child;
        }
        before = child;
        ++*length;
    }
    *last = before;
    return 0;
}

// Finds one; *length: of the list that was searched in vain.
ref_t children_find(struct arena *arena, const struct tree *tree, ref_t parent, ref_t edge,
                    uint32_t *length);

// Prepares for one more by that edge. False: there is no memory to find so many by.
bool children_make_room(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint32_t length);

// After children_make_room().
void children_add(struct arena *arena, const struct tree *tree, ref_t parent, ref_t edge,
                  ref_t child);

void children_remove(struct arena *arena, const struct tree *tree, ref_t parent, ref_t child);

#endif
