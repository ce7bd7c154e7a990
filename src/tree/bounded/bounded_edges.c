// SPDX-License-Identifier: MIT
#include "tree/bounded/bounded_layout.h"

// The edges of a bounded tree: interned like those of any other, but in the buffer, and given to
// others when no node has them any more.

static struct edge *edge_at(const struct arena *arena, const struct bounded *bounded,
                            uint32_t index)
{
    return (struct edge *)arena_at(arena, bounded->edges) + index;
}

// The index of an edge; edge_capacity for what is none.
static uint32_t index_of(const struct bounded *bounded, ref_t edge)
{
    const uint32_t units = sizeof(struct edge) / 8;
    const uint32_t index = (edge - bounded->edges) / units;
    return edge >= bounded->edges && index < bounded->edge_capacity ? index
                                                                    : bounded->edge_capacity;
}

static ref_t ref_of(const struct bounded *bounded, uint32_t index)
{
    return bounded->edges + index * (ref_t)(sizeof(struct edge) / 8);
}

static uint32_t *uses_of(const struct arena *arena, const struct bounded *bounded, uint32_t index)
{
    return (uint32_t *)arena_at(arena, bounded->edge_uses) + index;
}

// The slot of an edge, or the empty one where it belongs. NULL in a table without an empty slot,
// which is a damaged one.
static ref_t *slot_of(const struct arena *arena, const struct bounded *bounded, place_t site,
                      place_t function)
{
    ref_t *slots = arena_at(arena, bounded->edge_slots);
    const uint32_t mask = bounded->edge_slot_count - 1;
    uint32_t at = bounded_mix((site ^ site >> 32) + (function << 20 | function >> 44) * 3) & mask;
    for (uint32_t i = 0; i < TREE_LONGEST_PROBE; i++, at = (at + 1) & mask) {
        if (slots[at] == 0)
            return &slots[at];
        const uint32_t index = index_of(bounded, slots[at]);
        if (index == bounded->edge_capacity)
            return NULL;
        const struct edge *edge = edge_at(arena, bounded, index);
        if (edge->site == site && edge->function == function)
            return &slots[at];
    }
    return NULL;
}

ref_t bounded_find_edge(const struct arena *arena, const struct bounded *bounded, place_t site,
                        place_t function)
{
    const ref_t *slot = slot_of(arena, bounded, site, function);
    return slot ? *slot : 0;
}

uint32_t bounded_edges_left(const struct bounded *bounded)
{
    return bounded->free_edges + bounded->edge_capacity - bounded->next_edge;
}

static uint32_t take_free(const struct arena *arena, struct bounded *bounded)
{
    if (bounded->free_edge) {
        const uint32_t index = index_of(bounded, bounded->free_edge);
        if (index == bounded->edge_capacity)
            return index;
        bounded->free_edge = (ref_t)edge_at(arena, bounded, index)->site;
        bounded->free_edges--;
        return index;
    }
    return bounded->next_edge < bounded->edge_capacity ? bounded->next_edge++
                                                       : bounded->edge_capacity;
}

ref_t bounded_edge(const struct arena *arena, struct bounded *bounded, place_t site,
                   place_t function)
{
    ref_t *slot = slot_of(arena, bounded, site, function);
    if (!slot || *slot)
        return slot ? *slot : 0;
    const uint32_t index = take_free(arena, bounded);
    if (index == bounded->edge_capacity)
        return 0;
    struct edge *edge = edge_at(arena, bounded, index);
    // Relaxed: no node leads here yet, but a reader may have the reference from an earlier one.
    __atomic_store_n(&edge->site, site, __ATOMIC_RELAXED);
    __atomic_store_n(&edge->function, function, __ATOMIC_RELAXED);
    *uses_of(arena, bounded, index) = 0;
    return *slot = ref_of(bounded, index);
}

void bounded_use_edge(const struct arena *arena, struct bounded *bounded, ref_t edge)
{
    const uint32_t index = index_of(bounded, edge);
    if (index < bounded->edge_capacity && (*uses_of(arena, bounded, index))++ == 0)
        bounded->live_edges++;
}

void bounded_drop_edge(const struct arena *arena, struct bounded *bounded, ref_t edge)
{
    const uint32_t index = index_of(bounded, edge);
    if (index < bounded->edge_capacity && --*uses_of(arena, bounded, index) == 0)
        bounded->live_edges--;
}

static void publish_edges(struct bounded *bounded)
{
    // The owner writes, readers compare. Release: a reader that sees new contents behind an old
    // reference can see the new number as well.
    atomic_fetch_add_explicit(&bounded->edge_epoch, 1, memory_order_release);
}

static void clear_slots(const struct arena *arena, struct bounded *bounded)
{
    ref_t *slots = arena_at(arena, bounded->edge_slots);
    for (uint32_t i = 0; i < bounded->edge_slot_count; i++)
        slots[i] = 0;
}

// All unused edges become free. From the last to the first, so that low ones are taken first.
void bounded_collect_edges(const struct arena *arena, struct bounded *bounded)
{
    publish_edges(bounded);
    clear_slots(arena, bounded);
    bounded->free_edge = 0;
    bounded->free_edges = 0;
    for (uint32_t index = bounded->next_edge; index-- > 0;) {
        struct edge *edge = edge_at(arena, bounded, index);
        if (*uses_of(arena, bounded, index)) {
            ref_t *slot = slot_of(arena, bounded, edge->site, edge->function);
            if (slot)
                *slot = ref_of(bounded, index);
            continue;
        }
        edge->site = bounded->free_edge;
        edge->function = 0;
        bounded->free_edge = ref_of(bounded, index);
        bounded->free_edges++;
    }
}

void bounded_forget_edges(const struct arena *arena, struct bounded *bounded)
{
    publish_edges(bounded);
    clear_slots(arena, bounded);
    bounded->free_edge = 0;
    bounded->free_edges = bounded->next_edge = bounded->live_edges = 0;
}
