// SPDX-License-Identifier: MIT
// Lossy Counting, after Manku and Motwani. Every new context gets a counter. After each window of
// 1/epsilon events, contexts whose count (what they may have had before it began included) is not
// above epsilon * N go: they are not hot. A dropped context has had at most the highest count that
// was ever dropped. A context that comes, perhaps again, begins with that.
//
// Where events weigh the same this is the rule of the paper, N/window being the number of the
// window. Where they do not, epsilon * N is what it is.
//
// Hooks of calls count contexts that have a counter by themselves. So a window is 1/epsilon events
// that came here, new contexts among them, and maybe many more that did not; N is summed up at its
// end. A context that remains has had more than epsilon of what came after it, as with shorter
// windows. So there are at most as many as by the paper's bound, plus the new ones of one window.

#include "tree/miners/monitored_list.h"

void lossy_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t ref, uint64_t amount)
{
    struct lossy *lossy = &miner->lossy;
    struct node *node = tree_node(arena, ref);
    if (miner_monitors(node)) {
        miner_set(&node->value[0], miner_count(node) + amount);
    } else if (miner_append(arena, tree, miner, ref)) {
        const uint64_t floor = atomic_load_explicit(&miner->floor, memory_order_relaxed);
        miner_begin(node, floor + amount, floor);
        miner_add_excess(miner, floor);
    } else { // no memory: a context with that much may be missing
        miner_raise_floor(miner,
                          atomic_load_explicit(&miner->floor, memory_order_relaxed) + amount);
        miner_add_excess(miner, 0 - amount);
    }
    if (++lossy->events >= miner->counters) {
        lossy->events = 0;
        lossy->hot = miner_sum_up(arena, miner) / miner->counters;
        lossy->sweeping = 1;
        lossy->at = 0;
    }
}

ref_t lossy_victim(struct arena *arena, struct miner *miner)
{
    struct lossy *lossy = &miner->lossy;
    if (!lossy->sweeping)
        return 0;
    while (lossy->at < miner->count) {
        const ref_t ref = *miner_slot(arena, miner, lossy->at);
        struct node *node = tree_node(arena, ref);
        const uint64_t count = miner_count(node);
        miner->scans++;
        if (count > lossy->hot) {
            lossy->at++;
            continue;
        }
        miner_remove(arena, miner, lossy->at);
        miner_end(node);
        miner_raise_floor(miner, count);
        miner_add_excess(miner, 0 - count);
        return ref;
    }
    lossy->sweeping = 0;
    return 0;
}
