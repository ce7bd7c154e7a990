// SPDX-License-Identifier: MIT
// The memory of a tree: blocks of nodes in a chain that readers follow.

#include "tree/hot.h"
#include "tree/layout.h"

enum { TRIES = 1024 }; // at room that others take first

// How many records of `each` bytes behind a head fit into so much room, at most `wanted`.
static uint32_t records_that_fit(uint64_t room, size_t head, size_t each, uint32_t wanted)
{
    if (room < head + each)
        return 0;
    uint64_t fits = (room - head) / each;
    return fits < wanted ? (uint32_t)fits : wanted;
}

// Asking for the room first keeps the arena's count of refusals honest. Another thread may take it
// between the question and the allocation: then ask again for less.
static ref_t from_common_part(struct arena *arena, size_t head, size_t each, uint32_t *count)
{
    uint32_t wanted = *count;
    for (unsigned i = 0; i < TRIES; i++) {
        wanted = records_that_fit(arena_room(arena), head, each, wanted);
        ref_t block = wanted ? arena_alloc(arena, head + each * wanted) : 0;
        if (block || !wanted) {
            *count = wanted;
            return block;
        }
    }
    return 0;
}

// Exact records come from the common part alone.
static ref_t exact_records(struct arena *arena, ref_t ref, size_t head, size_t each,
                           uint32_t *count)
{
    struct tree *tree = tree_at(arena, ref);
    ref_t block = tree->full ? 0 : from_common_part(arena, head, each, count);
    if (!block && !tree->full) {
        tree->full = 1; // an arena only fills: asking again would be in vain
        hot_take_over(arena, ref);
    }
    return block;
}

static ref_t from_kept_part(struct arena *arena, const struct tree *tree, size_t head, size_t each,
                            uint32_t *count)
{
    uint32_t wanted = *count;
    for (unsigned i = 0; i < TRIES; i++) {
        wanted = records_that_fit(hot_room(arena, tree), head, each, wanted);
        ref_t block = wanted ? arena_alloc_kept(arena, head + each * wanted) : 0;
        if (block)
            hot_spend(arena, tree, head + each * wanted);
        if (block || !wanted) {
            *count = wanted;
            return block;
        }
    }
    return 0;
}

ref_t tree_records(struct arena *arena, ref_t tree, size_t head, size_t each, uint32_t *count)
{
    uint32_t wanted = *count;
    ref_t block = exact_records(arena, tree, head, each, count);
    if (block)
        return block;
    *count = wanted;
    return from_kept_part(arena, tree_at(arena, tree), head, each, count);
}

ref_t tree_whole(struct arena *arena, ref_t ref, size_t bytes)
{
    const struct tree *tree = tree_at(arena, ref);
    if (!tree->full) // a smaller one may still find room: that is not for us to say
        return arena_room(arena) >= bytes ? arena_alloc(arena, bytes) : 0;
    ref_t block = hot_room(arena, tree) >= bytes ? arena_alloc_kept(arena, bytes) : 0;
    if (block)
        hot_spend(arena, tree, bytes);
    return block;
}

ref_t tree_block_new(struct arena *arena, ref_t tree, unsigned metrics, uint32_t capacity,
                     bool exact)
{
    ref_t (*records)(struct arena *, ref_t, size_t, size_t, uint32_t *) =
        exact ? exact_records : tree_records;
    ref_t ref =
        records(arena, tree, sizeof(struct node_block), tree_node_bytes(metrics), &capacity);
    if (ref) {
        struct node_block *block = arena_at(arena, ref);
        block->capacity = capacity;
        block->metrics = metrics;
    }
    return ref;
}

void tree_block_append(struct arena *arena, ref_t ref, ref_t block)
{
    struct tree *tree = tree_at(arena, ref);
    struct node_block *tail = arena_at(arena, tree->tail);
    // The owner writes, readers follow. Release: the new block's head is readable. Where all nodes
    // are exact only a full block gets a successor, which is what lets readers see parents before
    // children (see tree_scan).
    if (tree->tail)
        atomic_store_explicit(&tail->next, block, memory_order_release);
    tree->tail = block;
}
