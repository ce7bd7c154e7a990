// SPDX-License-Identifier: MIT
// The one buffer that a bounded tree lives in: how many nodes it has room for, and what lies where.
#include "tree/bounded/bounded.h"
#include "tree/bounded/bounded_layout.h"

enum {
    LEAST_BYTES = 4096, // of a buffer that is of any use
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static uint32_t power_of_two(uint64_t least)
{
    uint32_t power = 8;
    while (power < least)
        power *= 2;
    return power;
}

static uint32_t edge_slots_for(uint64_t edges)
{
    return power_of_two(edges + edges / 3 + 1);
}

static uint64_t bytes_for(uint64_t nodes)
{
    return sizeof(struct node_block) + nodes * (tree_node_bytes(BOUNDED_STRIDE)) +
           nodes * sizeof(struct edge) + round_up(nodes * sizeof(uint32_t)) +
           (uint64_t)edge_slots_for(nodes) * sizeof(ref_t) +
           (uint64_t)power_of_two(nodes) * sizeof(ref_t);
}

// The most nodes that, with all they need, are in so many bytes.
static uint32_t nodes_in(uint64_t bytes)
{
    uint64_t low = 0, high = bytes / tree_node_bytes(BOUNDED_STRIDE);
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (bytes_for(middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return (uint32_t)low;
}

// Less than was asked for, where the arena has no more. Asking first keeps the arena's count of
// refusals honest.
static ref_t take_memory(struct arena *arena, uint64_t *bytes)
{
    const struct arena_head *limits = arena_head(arena);
    for (; *bytes >= LEAST_BYTES; *bytes /= 2) {
        uint64_t used = atomic_load_explicit(&limits->used, memory_order_relaxed);
        if (used + *bytes > limits->limit)
            continue;
        ref_t memory = arena_alloc(arena, *bytes);
        if (memory)
            return memory;
    }
    return 0;
}

static uint64_t head_bytes(void)
{
    return round_up(sizeof(struct bounded)) + sizeof(struct node_block) +
           tree_node_bytes(BOUNDED_STRIDE);
}

bool bounded_lay_out(struct arena *arena, struct bounded *bounded)
{
    uint64_t bytes =
        bounded->bytes > head_bytes() ? (bounded->bytes - head_bytes()) & ~UINT64_C(7) : 0;
    const ref_t memory = bounded->refused ? 0 : take_memory(arena, &bytes);
    if (!memory) {
        bounded->refused = 1;
        return false;
    }
    const uint32_t nodes = nodes_in(bytes);
    bounded->block = memory;
    bounded->edge_capacity = nodes;
    bounded->edge_slot_count = edge_slots_for(nodes);
    bounded->node_slot_count = power_of_two(nodes);
    bounded->nodes = tree_node_in_block(memory, BOUNDED_STRIDE, 0);
    bounded->edges = bounded->nodes + nodes * bounded_node_units();
    bounded->edge_uses = bounded->edges + nodes * (ref_t)(sizeof(struct edge) / 8);
    bounded->edge_slots =
        bounded->edge_uses + (ref_t)(round_up((uint64_t)nodes * sizeof(uint32_t)) / 8);
    bounded->node_slots = bounded->edge_slots + bounded->edge_slot_count / 2;
    struct node_block *block = arena_at(arena, memory);
    block->capacity = nodes;
    block->metrics = BOUNDED_STRIDE;
    struct node_block *first =
        arena_at(arena, atomic_load_explicit(&bounded->tree.first_block, memory_order_relaxed));
    // Release, both: who sees the block, or its capacity, finds it whole.
    atomic_store_explicit(&first->next, memory, memory_order_release);
    atomic_store_explicit(&bounded->capacity, nodes, memory_order_release);
    return true;
}

ref_t bounded_new(struct arena *arena, const struct tree_options *options)
{
    const ref_t ref = arena_alloc(arena, sizeof(struct bounded));
    const ref_t first =
        arena_alloc(arena, sizeof(struct node_block) + tree_node_bytes(BOUNDED_STRIDE));
    if (!ref || !first)
        return 0;
    struct bounded *bounded = bounded_at(arena, ref);
    bounded->bytes = options->bytes < (UINT64_C(8) << 30) ? options->bytes : UINT64_C(8) << 30;
    bounded->purge = options->purge;
    bounded->tree.kind = options->kind;
    atomic_store_explicit(&bounded->tree.forgets, 1, memory_order_relaxed);
    bounded->root_edge.function = options->start;
    struct node_block *block = arena_at(arena, first);
    block->metrics = BOUNDED_STRIDE;
    block->capacity = 1;
    bounded->tree.root = tree_node_in_block(first, BOUNDED_STRIDE, 0);
    struct node *root = arena_at(arena, bounded->tree.root);
    root->edge = ref + (ref_t)(offsetof(struct bounded, root_edge) / 8);
    atomic_store_explicit(&block->used, 1, memory_order_relaxed);
    bounded->tree.metrics = BOUNDED_TOLD;
    // Last and with release: a reader that finds the first block finds a whole tree.
    atomic_store_explicit(&bounded->tree.first_block, first, memory_order_release);
    return ref;
}
