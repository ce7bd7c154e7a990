// SPDX-License-Identifier: MIT
// Sticky Sampling, after Manku and Motwani. Of what is charged to contexts without a counter, one
// unit in `rate` gives the context one, and from then on all is counted. The rate doubles as N
// does, so that the sample stays as large as it is. Counters made at the old rate are then changed
// to what the new rate would have made: by a coin, the unit that made a counter would not have been
// taken, nor those after it, up to one that would.
//
// Hooks of calls count contexts that have a counter by themselves, so N is summed up now and then.
// A rate that doubles late, and a floor that rises late with it, keep what is promised: the sample
// is the larger meanwhile.
//
// Weights are so many units, without looking at each: how many go by untaken is drawn from the
// geometric distribution. No floating point here: the logarithm is made of squarings.

#include "tree/miners/monitored_list.h"

enum { MOST_SWEEPS = 64 }; // a rate of 64 bits doubles no more often

static uint64_t next_random(struct sticky *sticky)
{
    sticky->random ^= sticky->random << 13;
    sticky->random ^= sticky->random >> 7;
    sticky->random ^= sticky->random << 17;
    return sticky->random;
}

// -ln(u / 2^64) for u > 0, in units of 2^-32.
static uint64_t minus_log(uint64_t u)
{
    const unsigned zeros = (unsigned)__builtin_clzll(u);
    uint64_t mantissa = u << zeros, fraction = 0; // in [1, 2), 63 bits behind the point
    for (unsigned i = 0; i < 32; i++) {
        const uint64_t square = (uint64_t)((unsigned __int128)mantissa * mantissa >> 64);
        const bool above = square >> 63; // of 62 bits behind the point: at least 2
        fraction = fraction << 1 | above;
        mantissa = above ? square : square << 1;
    }
    const uint64_t log2 = ((uint64_t)(zeros + 1) << 32) - fraction;
    return (uint64_t)((unsigned __int128)log2 * UINT64_C(2977044472) >> 32);
}

// How many units go by before one is taken, if one in `rate` is. (An exponential variable of mean
// rate - 1/2, rounded down, is very nearly geometric.)
static uint64_t draw_skip(struct sticky *sticky)
{
    if (sticky->rate == 1)
        return 0;
    const uint64_t draw = minus_log(next_random(sticky));
    return (uint64_t)((unsigned __int128)draw * (2 * sticky->rate - 1) >> 33);
}

void sticky_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t ref, uint64_t amount)
{
    struct sticky *sticky = &miner->sticky;
    struct node *node = tree_node(arena, ref);
    sticky->charged += amount;
    atomic_store_explicit(&miner->floor, sticky->charged / miner->counters, memory_order_relaxed);
    if (miner_monitors(node)) {
        miner_set(&node->value[0], miner_count(node) + amount);
    } else if (sticky->skip >= amount) {
        sticky->skip -= amount;
        miner_add_excess(miner, 0 - amount);
    } else {
        const uint64_t missed = sticky->skip;
        sticky->skip = draw_skip(sticky);
        const bool counted = miner_append(arena, tree, miner, ref);
        if (counted)
            miner_begin(node, amount - missed, 0);
        miner_add_excess(miner, 0 - (counted ? missed : amount));
    }
    // As often as a scan of M costs no more than one per event.
    if (++sticky->counted > miner->count + MINER_FIRST) {
        sticky->counted = 0;
        sticky->charged = miner_sum_up(arena, miner);
    }
    // The first 2t at rate 1, the next 2t at 2, 4t at 4, and so on.
    for (uint64_t limit = 2 * sticky->items * sticky->rate << sticky->sweeps;
         sticky->charged > limit && limit && limit < UINT64_MAX / 4; limit *= 2)
        sticky->sweeps++;
}

// By how much a counter falls when the rate has doubled.
static uint64_t loss(struct sticky *sticky)
{
    return next_random(sticky) >> 63 ? 0 : 1 + draw_skip(sticky);
}

ref_t sticky_victim(struct arena *arena, struct miner *miner)
{
    struct sticky *sticky = &miner->sticky;
    if (sticky->sweeps > MOST_SWEEPS)
        sticky->sweeps = MOST_SWEEPS;
    for (; sticky->sweeps; sticky->sweeps--) {
        if (!sticky->sweeping) {
            sticky->sweeping = 1;
            sticky->at = 0;
            sticky->rate *= 2;
            sticky->skip = draw_skip(sticky);
        }
        for (; sticky->at < miner->count;) {
            const ref_t ref = *miner_slot(arena, miner, sticky->at);
            struct node *node = tree_node(arena, ref);
            const uint64_t count = miner_count(node), less = loss(sticky);
            miner->scans++;
            miner_add_excess(miner, 0 - (less < count ? less : count));
            if (less < count) {
                miner_set(&node->value[0], count - less);
                sticky->at++;
                continue;
            }
            miner_remove(arena, miner, sticky->at);
            miner_end(node);
            return ref;
        }
        sticky->sweeping = 0;
    }
    return 0;
}
