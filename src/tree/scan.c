// SPDX-License-Identifier: MIT
#include "tree/block_walk.h"
#include "tree/hot.h"
#include "tree/tree.h"
#include <errno.h>

struct scanning {
    const struct arena *arena;
    bool (*visit)(void *context, ref_t ref, const struct node *node);
    void *context;
    unsigned metrics; // the least that a node has
    int64_t visited;
    bool damaged;
};

static bool scan_run(void *context, const struct block_run *run)
{
    struct scanning *scanning = context;
    scanning->damaged = run->metrics < scanning->metrics;
    for (uint32_t i = 0; i < run->count && !scanning->damaged; i++) {
        const ref_t ref = tree_node_of_run(run, i);
        const struct node *node = arena_at(scanning->arena, ref);
        if (__atomic_load_n(&node->edge, __ATOMIC_RELAXED) == 0)
            continue; // free
        scanning->visited++;
        if (!scanning->visit(scanning->context, ref, node))
            return false;
    }
    return !scanning->damaged;
}

int64_t tree_scan(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                  bool (*visit)(void *context, ref_t ref, const struct node *node), void *context)
{
    struct scanning scanning = {.arena = arena, .visit = visit, .context = context};
    if (!is_inside(arena_bytes, tree, sizeof(struct tree)))
        return -EBADMSG;
    // Read once: the profiled program may overwrite it at any time.
    const struct tree *head = arena_at(arena, tree);
    scanning.metrics = __atomic_load_n(&head->metrics, __ATOMIC_RELAXED);
    if (atomic_load_explicit(&head->first_block, memory_order_acquire) == 0)
        return 0; // being made
    if (scanning.metrics == 0 || scanning.metrics > TREE_MOST_METRICS)
        return -EBADMSG;
    const int result = tree_each_run(arena, arena_bytes, tree, scan_run, &scanning);
    return result < 0 || scanning.damaged ? -EBADMSG : scanning.visited;
}

unsigned tree_metrics_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref)
{
    if (!is_inside(arena_bytes, ref, sizeof(struct tree)))
        return 0;
    const struct tree *tree = arena_at(arena, ref);
    if (atomic_load_explicit(&tree->first_block, memory_order_acquire) == 0)
        return 0;
    unsigned metrics = __atomic_load_n(&tree->metrics, __ATOMIC_RELAXED);
    return metrics <= TREE_MOST_METRICS ? metrics : 0;
}

bool tree_forgets_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref)
{
    if (!is_inside(arena_bytes, ref, sizeof(struct tree)))
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
    if ((kind != TREE_FULL && kind != TREE_HOT) ||
        !is_inside(arena_bytes, more, sizeof(struct hot)))
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
    if (!is_inside(arena_bytes, ref, sizeof *edge))
        return false;
    const struct edge *from = arena_at(arena, ref);
    edge->site = __atomic_load_n(&from->site, __ATOMIC_RELAXED);
    edge->function = __atomic_load_n(&from->function, __ATOMIC_RELAXED);
    return true;
}
