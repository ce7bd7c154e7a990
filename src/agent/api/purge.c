// SPDX-License-Identifier: MIT
// Purging: each thread continues in another tree, from its next sample on. In a recording of the
// program's own the old trees are used again, once they are left and cleared: each thread has two,
// and takes turns. A tool that reads along keeps what it has read, and old trees stay as they are.

#include "agent/api/api.h"
#include "agent/thread/thread.h"
#include "tree/bounded/bounded.h"
#include <errno.h>
#include <string.h>

static bool forget_node(void *context, ref_t ref, const struct node *node)
{
    const unsigned metrics = *(const unsigned *)context;
    (void)ref;
    for (unsigned i = 0; i < metrics; i++)
        __atomic_store_n((uint64_t *)&node->value[i], 0, __ATOMIC_RELAXED);
    return true;
}

// Contexts of a full tree stay, without a cost: they will most likely come again. False: it is of a
// kind that cannot be cleared.
static bool clear_tree(ref_t tree)
{
    const uint64_t bytes = arena_head(&agent.arena)->limit;
    unsigned metrics = tree_metrics(&agent.arena, tree);
    const struct tree_traits *kind = tree_traits_of(tree_kind(&agent.arena, tree));
    if (kind->has_buffer) {
        bounded_reset(&agent.arena, tree);
        return true;
    }
    return kind->keeps_all && !tree_forgets_read(&agent.arena, bytes, tree) &&
           tree_scan(&agent.arena, bytes, tree, forget_node, &metrics) >= 0;
}

static void clear_record(struct live_thread *record, uint32_t generation)
{
    uint32_t unowned = 0;
    // Acquire: the tree is as its last owner left it.
    if (!atomic_compare_exchange_strong_explicit(&record->owned, &unowned, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return; // its thread has not taken a sample since the last purge
    if (clear_tree(record->tree)) {
        memset(&record->stats, 0, sizeof record->stats);
        record->pending = 0;
        record->last_node = 0;
        atomic_store_explicit(&record->generation, generation, memory_order_relaxed);
    }
    atomic_store_explicit(&record->owned, 0, memory_order_release);
}

API int cairn_purge_1(void)
{
    if (!agent.active || agent_in_vfork_child())
        return 0;
    const uint32_t generation =
        atomic_fetch_add_explicit(&agent.generation, 1, memory_order_relaxed) + 1;
    uint32_t left = agent.own ? LIVE_MOST_LISTED : 0;
    struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next)
        if (atomic_load_explicit(&record->generation, memory_order_relaxed) != generation)
            clear_record(record, generation);
    thread_move_now();
    return 0;
}
