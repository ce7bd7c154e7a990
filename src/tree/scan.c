// SPDX-License-Identifier: MIT
#include "tree/hot.h"
#include "tree/layout.h"
#include "tree/tree.h"
#include <errno.h>

static bool inside(uint64_t arena_bytes, ref_t ref, uint64_t bytes)
{
    return ref != 0 && (uint64_t)ref * 8 + bytes <= arena_bytes;
}

int64_t tree_scan(const struct arena *arena, uint64_t arena_bytes, ref_t tree_ref,
                  bool (*visit)(void *context, ref_t ref, const struct node *node), void *context)
{
    if (!inside(arena_bytes, tree_ref, sizeof(struct tree)))
        return -EBADMSG;
    const struct tree *tree = arena_at(arena, tree_ref);
    // Read once: the profiled program may overwrite it at any time.
    unsigned metrics = __atomic_load_n(&tree->metrics, __ATOMIC_RELAXED);
    ref_t at = atomic_load_explicit(&tree->first_block, memory_order_acquire);
    if (at == 0)
        return 0; // being made
    if (metrics == 0 || metrics > TREE_MOST_METRICS)
        return -EBADMSG;

    // No arena holds more nodes than this.
    uint64_t bytes_left = arena_bytes;
    int64_t visited = 0;
    struct tree_chain chain = {0};
    while (at) {
        if (tree_chain_repeats(&chain, at))
            return -EBADMSG;
        if (!inside(arena_bytes, at, sizeof(struct node_block)))
            return -EBADMSG;
        const struct node_block *block = arena_at(arena, at);
        // `next` before `used`: a block has a successor only once it is full. So a reader that
        // continues with the successor has seen this block whole, and no child before its parent.
        // Acquire pairs with the releases in tree.c.
        ref_t next = atomic_load_explicit(&block->next, memory_order_acquire);
        uint32_t used = atomic_load_explicit(&block->used, memory_order_acquire);
        // A full tree that has begun to forget has blocks of nodes with more values.
        const unsigned values = __atomic_load_n(&block->metrics, __ATOMIC_RELAXED);
        uint64_t bytes = sizeof *block + used * (uint64_t)tree_node_bytes(values);
        if (values < metrics || values > TREE_MOST_METRICS || !inside(arena_bytes, at, bytes) ||
            bytes > bytes_left)
            return -EBADMSG;
        bytes_left -= bytes;
        for (uint32_t i = 0; i < used; i++) {
            const ref_t ref = tree_node_in_block(at, values, i);
            const struct node *node = arena_at(arena, ref);
            if (__atomic_load_n(&node->edge, __ATOMIC_RELAXED) == 0)
                continue; // free
            visited++;
            if (!visit(context, ref, node))
                return visited;
        }
        at = next;
    }
    return visited;
}

unsigned tree_metrics_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref)
{
    if (!inside(arena_bytes, ref, sizeof(struct tree)))
        return 0;
    const struct tree *tree = arena_at(arena, ref);
    if (atomic_load_explicit(&tree->first_block, memory_order_acquire) == 0)
        return 0;
    unsigned metrics = __atomic_load_n(&tree->metrics, __ATOMIC_RELAXED);
    return metrics <= TREE_MOST_METRICS ? metrics : 0;
}

bool tree_forgets_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref)
{
    if (!inside(arena_bytes, ref, sizeof(struct tree)))
        return false;
    const struct tree *tree = arena_at(arena, ref);
    // Acquire: the tree's further state was there before it began to forget.
    return atomic_load_explicit(&tree->forgets, memory_order_acquire) != 0;
}

bool tree_hot_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref,
                   struct tree_hot *state)
{
    if (!tree_forgets_read(arena, arena_bytes, ref))
        return false;
    const struct tree *tree = arena_at(arena, ref);
    const uint32_t kind = __atomic_load_n(&tree->kind, __ATOMIC_RELAXED);
    const ref_t more = __atomic_load_n(&tree->more, __ATOMIC_RELAXED);
    if ((kind != TREE_FULL && kind != TREE_HOT) || !inside(arena_bytes, more, sizeof(struct hot)))
        return false;
    const struct miner *miner = &((const struct hot *)arena_at(arena, more))->miner;
    *state = (struct tree_hot){
        .miner = __atomic_load_n(&miner->kind, __ATOMIC_RELAXED),
        .counters = __atomic_load_n(&miner->counters, __ATOMIC_RELAXED),
        .monitored = __atomic_load_n(&miner->count, __ATOMIC_RELAXED),
        .floor = atomic_load_explicit(&miner->floor, memory_order_relaxed),
        .made_up = atomic_load_explicit(&miner->excess, memory_order_relaxed),
        .events = __atomic_load_n(&miner->events, __ATOMIC_RELAXED),
        .scans = __atomic_load_n(&miner->scans, __ATOMIC_RELAXED),
    };
    return true;
}

bool tree_edge_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref, struct edge *edge)
{
    ref &= ~TREE_UNMONITORED;
    if (!inside(arena_bytes, ref, sizeof *edge))
        return false;
    const struct edge *from = arena_at(arena, ref);
    edge->site = __atomic_load_n(&from->site, __ATOMIC_RELAXED);
    edge->function = __atomic_load_n(&from->function, __ATOMIC_RELAXED);
    return true;
}
