// SPDX-License-Identifier: MIT
// Edges of a tree: interned, and found by a hash.

#include "base/likely.h"
#include "tree/layout.h"

enum {
    FIRST_EDGES = 16,
    MOST_EDGES = 2048,
    FIRST_EDGE_SLOTS = 32,
    MOST_PROBES = 64, // of an edge on average, when the table grows: beyond that it was damaged
};

static uint32_t hash_edge(place_t site, place_t function)
{
    return tree_mix((site ^ site >> 32) + (function << 20 | function >> 44) * 3);
}

// A slot has the whole hash of its edge beside it: the edges themselves lie all over the memory,
// and to look at one that is another's is to wait for it in vain.
struct edge_slot {
    uint32_t hash;
    ref_t edge; // 0: free
};

static struct edge_slot *slots_of(const struct arena *arena, const struct tree *tree)
{
    return arena_at(arena, tree->edge_slots);
}

// NULL in a damaged table.
static struct edge_slot *find_slot(const struct arena *arena, const struct tree *tree,
                                   uint32_t hash, place_t site, place_t function)
{
    struct edge_slot *slots = slots_of(arena, tree);
    const uint32_t mask = tree->edge_slot_count - 1;
    uint32_t at = hash & mask;
    for (uint32_t i = 0; i < TREE_LONGEST_PROBE; i++, at = (at + 1) & mask) {
        if (slots[at].edge == 0)
            return &slots[at];
        if (slots[at].hash != hash)
            continue;
        const struct edge *edge = arena_at(arena, slots[at].edge);
        if (edge->site == site && edge->function == function)
            return &slots[at];
    }
    return NULL;
}

// False also in a process that lives on although the tool took it for dead, and zeroed its memory.
static bool has_slots(const struct arena *arena, const struct tree *tree)
{
    return tree->edge_slot_count &&
           arena_find(arena, tree->edge_slots,
                      (uint64_t)tree->edge_slot_count * sizeof(struct edge_slot));
}

void tree_expect_edge(const struct arena *arena, ref_t ref, place_t site, place_t function)
{
    const struct tree *tree = tree_at(arena, ref);
    if (tree->edge_slot_count)
        __builtin_prefetch(
            &slots_of(arena, tree)[hash_edge(site, function) & (tree->edge_slot_count - 1)]);
}

void tree_expect_edge_record(const struct arena *arena, ref_t ref, place_t site, place_t function)
{
    const struct tree *tree = tree_at(arena, ref);
    const uint32_t hash = hash_edge(site, function), mask = tree->edge_slot_count - 1;
    if (!has_slots(arena, tree))
        return;
    const struct edge_slot *slots = slots_of(arena, tree);
    uint32_t at = hash & mask;
    for (uint32_t i = 0; i < TREE_LONGEST_PROBE && slots[at].edge && slots[at].hash != hash; i++)
        at = (at + 1) & mask;
    __builtin_prefetch(arena_at(arena, slots[at].edge));
}

// The old table is left behind: all of them together are as large as the newest.
static bool grow_edge_slots(struct arena *arena, ref_t ref)
{
    struct tree *tree = tree_at(arena, ref);
    uint32_t old_count = tree->edge_slot_count;
    const struct edge_slot *old = slots_of(arena, tree);
    if (old_count > UINT32_MAX / 2)
        return false;
    ref_t grown = tree_whole(arena, ref, (size_t)old_count * 2 * sizeof(struct edge_slot));
    if (!grown)
        return false;
    tree->edge_slots = grown;
    tree->edge_slot_count = old_count * 2;
    struct edge_slot *slots = slots_of(arena, tree);
    const uint32_t mask = tree->edge_slot_count - 1;
    uint64_t probes = (uint64_t)old_count * MOST_PROBES;
    for (uint32_t i = 0; i < old_count && probes > 0; i++) {
        if (!old[i].edge)
            continue;
        uint32_t at = old[i].hash & mask;
        for (; probes > 0 && slots[at].edge; probes--)
            at = (at + 1) & mask;
        slots[at] = old[i];
    }
    return true;
}

static ref_t edge_new(struct arena *arena, ref_t tree_ref, place_t site, place_t function)
{
    struct tree *tree = tree_at(arena, tree_ref);
    if (tree->edges_left == 0) {
        uint32_t count = tree->edge_block_size * 2;
        if (count > MOST_EDGES)
            count = MOST_EDGES;
        ref_t block = tree_records(arena, tree_ref, 0, sizeof(struct edge), &count);
        if (!block)
            return 0;
        tree->next_edge = block;
        tree->edges_left = tree->edge_block_size = count;
    }
    ref_t ref = tree->next_edge;
    struct edge *edge = arena_at(arena, ref);
    edge->site = site;
    edge->function = function;
    tree->next_edge += sizeof(struct edge) / 8;
    tree->edges_left--;
    return ref;
}

ref_t tree_edge(struct arena *arena, ref_t ref, place_t site, place_t function)
{
    struct tree *tree = tree_at(arena, ref);
    if (UNLIKELY(!has_slots(arena, tree)))
        return 0;
    const uint32_t hash = hash_edge(site, function);
    struct edge_slot *slot = find_slot(arena, tree, hash, site, function);
    if (UNLIKELY(!slot) || slot->edge)
        return slot ? slot->edge : 0;
    if (tree->edge_count >= tree->edge_slot_count / 4 * 3) {
        if (grow_edge_slots(arena, ref))
            slot = find_slot(arena, tree, hash, site, function);
        else if (tree->edge_count >= tree->edge_slot_count / 8 * 7)
            return 0; // fuller, and every search would become long
    }
    ref_t edge = edge_new(arena, ref, site, function);
    if (edge && slot) {
        *slot = (struct edge_slot){hash, edge};
        tree->edge_count++;
    }
    return edge;
}

bool tree_edges_start(struct arena *arena, ref_t ref)
{
    struct tree *tree = tree_at(arena, ref);
    uint32_t edges = FIRST_EDGES;
    tree->edge_slots = tree_whole(arena, ref, FIRST_EDGE_SLOTS * sizeof(struct edge_slot));
    tree->next_edge = tree_records(arena, ref, 0, sizeof(struct edge), &edges);
    if (!tree->edge_slots || !tree->next_edge)
        return false;
    tree->edge_slot_count = FIRST_EDGE_SLOTS;
    tree->edges_left = tree->edge_block_size = edges;
    tree->unplaced_edge = tree_edge(arena, ref, 0, 0);
    return tree->unplaced_edge != 0;
}
