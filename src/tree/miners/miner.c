// SPDX-License-Identifier: MIT
#include "tree/miners/miner.h"
#include "tree/miners/monitored_list.h"

bool miner_start(struct miner *miner, const struct tree_options *options)
{
    miner->kind = options->miner;
    miner->counters = options->counters;
    if (options->counters == 0 || options->miner > TREE_STICKY_SAMPLING)
        return false;
    if (options->miner == TREE_SPACE_SAVING)
        miner->saving.least = UINT64_MAX;
    if (options->miner == TREE_STICKY_SAMPLING) {
        if (options->sticky_items == 0)
            return false;
        miner->sticky.items = options->sticky_items;
        miner->sticky.rate = 1;
        miner->sticky.random = UINT64_C(0x9e3779b97f4a7c15);
    }
    return true;
}

bool miner_append(struct arena *arena, ref_t tree, struct miner *miner, ref_t node)
{
    const uint32_t place = miner->count + MINER_FIRST;
    const unsigned power = 31 - (unsigned)__builtin_clz(place);
    if (power - 4 >= MINER_PARTS)
        return false;
    if (miner->count == miner->room) {
        // A part that came out shorter than it should is the last one.
        uint32_t pairs = UINT32_C(1) << (power - 1);
        if (place != UINT32_C(1) << power || miner->parts[power - 4])
            return false;
        miner->parts[power - 4] = tree_records(arena, tree, 0, 2 * sizeof(ref_t), &pairs);
        if (!miner->parts[power - 4])
            return false;
        miner->room += 2 * pairs;
    }
    miner->count++;
    *miner_slot(arena, miner, miner->count - 1) = node;
    return true;
}

void miner_remove(const struct arena *arena, struct miner *miner, uint32_t index)
{
    miner->count--;
    *miner_slot(arena, miner, index) = *miner_slot(arena, miner, miner->count);
}

uint64_t miner_sum_up(const struct arena *arena, struct miner *miner)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < miner->count; i++)
        sum += miner_count(miner_node(arena, miner, i));
    miner->scans += miner->count;
    return sum - atomic_load_explicit(&miner->excess, memory_order_relaxed);
}

ref_t others_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                    uint64_t amount)
{
    if (!miner_is_whole(arena, miner) || !miner->counters)
        return 0;
    if (miner->kind == TREE_LOSSY_COUNTING)
        lossy_update(arena, tree, miner, node, amount);
    else
        sticky_update(arena, tree, miner, node, amount);
    return others_victim(arena, miner);
}

ref_t others_victim(struct arena *arena, struct miner *miner)
{
    if (!miner_is_whole(arena, miner))
        return 0;
    return miner->kind == TREE_LOSSY_COUNTING ? lossy_victim(arena, miner)
                                              : sticky_victim(arena, miner);
}

// Lossy Counting and Sticky Sampling do not know the coldest, and there is no memory for finding
// it. So the next one that is not hot, by the mean of all, is taken.
static ref_t give_up_some(struct arena *arena, struct miner *miner)
{
    enum { LOOKS = 16 };
    uint32_t coldest = 0;
    if (miner->count == 0 || !miner_is_whole(arena, miner))
        return 0;
    for (uint32_t i = 0; i < LOOKS; i++) {
        miner->turn = miner->turn + 1 < miner->count ? miner->turn + 1 : 0;
        if (i == 0 || miner_count(miner_node(arena, miner, miner->turn)) <
                          miner_count(miner_node(arena, miner, coldest)))
            coldest = miner->turn;
    }
    const ref_t victim = *miner_slot(arena, miner, coldest);
    const uint64_t count = miner_count(tree_node(arena, victim));
    miner_raise_floor(miner, count);
    miner_add_excess(miner, 0 - count);
    miner_remove(arena, miner, coldest);
    miner_end(tree_node(arena, victim));
    return victim;
}

ref_t miner_give_up(struct arena *arena, ref_t tree, struct miner *miner)
{
    return miner->kind == TREE_SPACE_SAVING ? saving_give_up(arena, tree, miner)
                                            : give_up_some(arena, miner);
}
