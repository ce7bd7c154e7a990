// SPDX-License-Identifier: MIT
// Space Saving with a lazy priority queue, after D'Elia, Demetrescu and Finocchi.
//
// A context that is monitored only has its count raised; M, an array in no order, does not change.
// So the coldest is not known at once. But counts only grow, and passes over M find it:
//
//   M   [ passed: counts above the limit | not looked at yet ............ ]
//                                         ▲ at
//
// A search continues from `at` to the first context with a count up to the limit, and that is the
// victim; the new context gets its place. At the end of a pass all counts are above the limit. The
// least of those that were passed, as they were then, becomes the new limit, and a pass begins
// anew. (In the paper a second scan finds the new minimum; here it comes with the first.)
//
// Events that all weigh the same. No count is below the limit, so the victim is a coldest context,
// exactly. A pass is as long as M has contexts, and raises the least count by a unit at least;
// since |M| * least <= N, the scans are at most one per event.
//
// Events of any weight. Then there may be a pass for every victim, and no rule with an exact
// minimum can do better than log |M| per event (it could be used to sort). Two scans per event buy
// a victim among the coldest: each event pays 2, each scan costs 1. At the end of a pass the limit
// becomes the least count if the credit pays for a whole pass that finds but one victim. Otherwise
// it becomes the lowest for which n contexts were at or below it when they were passed, n * 2 being
// what is missing. Each of these n is going to be taken, or has been raised by an event before it
// was reached, which pays as well. (Events that raised a count above the limit may be among these:
// `fresh` keeps what they pay from being spent twice.) The credit never falls below nought, so n is
// never more than half of M, and the limit, which half of all counts are below, is never more than
// twice their mean.
//
// A victim need not be colder than all before it then. A context that takes its place may once have
// been one of them: so it begins with the highest count that was ever taken, the floor, and
// `excess` is the sum that was added that way.

#include "tree/miners/monitored_list.h"

#define PAID 2        // scans, by an event
#define MOST_PASSES 8 // for one victim: two, but where hooks raise counts meanwhile
#define AHEAD 8       // so many nodes are fetched before they are looked at

static unsigned bucket_of(uint64_t value)
{
    if (value < 4)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (power - 1) * 4 + (unsigned)(value >> (power - 2) & 3);
}

// The largest value of a bucket.
static uint64_t bucket_end(unsigned bucket)
{
    const unsigned next = bucket + 1;
    if (next < 4)
        return bucket;
    const unsigned power = next / 4 + 1;
    return power > 63 ? UINT64_MAX : ((uint64_t)(4 + next % 4) << (power - 2)) - 1;
}

static uint32_t *histogram_of(const struct arena *arena, const struct saving *saving)
{
    return saving->histogram ? arena_at(arena, saving->histogram) : NULL;
}

static inline void pass_by(const struct arena *arena, struct saving *saving, uint64_t count)
{
    if (count < saving->least)
        saving->least = count;
    saving->sum += count;
    saving->passed++;
    saving->at++;
    if (saving->histogram)
        histogram_of(arena, saving)[bucket_of(count - saving->limit - 1)]++;
}

// The lowest limit that `wanted` of those passed are below, as far as the histogram shows.
static uint64_t limit_for(const struct arena *arena, const struct saving *saving, uint64_t wanted)
{
    const uint64_t mean = saving->sum / saving->passed;
    uint64_t limit = mean > UINT64_MAX / 2 ? UINT64_MAX : 2 * mean + 1;
    const uint32_t *histogram = histogram_of(arena, saving);
    uint64_t below = 0;
    for (unsigned i = 0; histogram && i < MINER_BUCKETS; i++) {
        below += histogram[i];
        if (below < wanted)
            continue;
        const uint64_t end = bucket_end(i), up_to = saving->limit + 1 + end;
        return up_to < limit && up_to > end ? up_to : limit;
    }
    return limit;
}

static void begin_pass(struct arena *arena, ref_t tree, struct miner *miner)
{
    struct saving *saving = &miner->saving;
    // The cost of the pass. Hooks that count by themselves pay too, unseen: then it may seem to
    // cost more than there is.
    saving->credit += saving->ripe;
    saving->credit -= saving->scanned < saving->credit ? saving->scanned : saving->credit;
    saving->ripe = saving->fresh;
    saving->fresh = 0;
    if (saving->passed) {
        const uint64_t missing = miner->count > saving->credit ? miner->count - saving->credit : 0;
        saving->limit = saving->weighted && missing
                            ? limit_for(arena, saving, (missing + PAID - 1) / PAID)
                            : saving->least;
    }
    if (saving->weighted && !saving->histogram)
        saving->histogram = tree_whole(arena, tree, MINER_BUCKETS * sizeof(uint32_t));
    uint32_t *histogram = histogram_of(arena, saving);
    if (histogram)
        tree_clear(histogram, MINER_BUCKETS * sizeof *histogram);
    saving->at = saving->passed = saving->scanned = 0;
    saving->least = UINT64_MAX;
    saving->sum = 0;
}

// Continues through the part of M that the pass is in. NULL: there is none in it.
static ref_t *search_part(struct arena *arena, struct miner *miner)
{
    struct saving *saving = &miner->saving;
    const uint32_t place = saving->at + MINER_FIRST;
    const uint32_t first = UINT32_C(1) << (31 - __builtin_clz(place));
    const uint32_t left = miner->count - saving->at, in_part = 2 * first - place;
    ref_t *slot = miner_slot(arena, miner, saving->at);
    const ref_t *end = slot + (left < in_part ? left : in_part);
    for (; slot < end; slot++) {
        if (end - slot > AHEAD)
            __builtin_prefetch(tree_node(arena, slot[AHEAD]));
        const uint64_t count = miner_count(tree_node(arena, *slot));
        miner->scans++;
        saving->scanned++;
        if (count <= saving->limit)
            return slot;
        pass_by(arena, saving, count);
    }
    return NULL;
}

// Its place in M, which is not empty: that which the pass is at. Counts that make no sense, because
// the program has scribbled over them, may leave none that is cold: then it is the first one.
static ref_t *find_coldest(struct arena *arena, ref_t tree, struct miner *miner)
{
    for (unsigned i = 0; i < MOST_PASSES; i++) {
        while (miner->saving.at < miner->count) {
            ref_t *slot = search_part(arena, miner);
            if (slot)
                return slot;
        }
        begin_pass(arena, tree, miner);
    }
    return miner_slot(arena, miner, 0);
}

static void pay(struct saving *saving, const struct node *node)
{
    // One that was passed, perhaps.
    if (saving->at > 0 && miner_count(node) > saving->limit)
        saving->fresh += PAID;
    else
        saving->credit += PAID;
}

// The coldest context loses its counter to the node.
static ref_t take_over(struct arena *arena, ref_t tree, struct miner *miner, ref_t ref,
                       uint64_t amount)
{
    struct saving *saving = &miner->saving;
    ref_t *slot = find_coldest(arena, tree, miner);
    const ref_t victim = *slot;
    const uint64_t count = miner_count(tree_node(arena, victim));
    miner_end(tree_node(arena, victim));
    *slot = ref;
    miner_raise_floor(miner, count);
    const uint64_t floor = atomic_load_explicit(&miner->floor, memory_order_relaxed);
    if (floor != count)
        miner_add_excess(miner, floor - count);
    miner_begin(tree_node(arena, ref), floor + amount, floor);
    if (floor + amount > saving->limit)
        pass_by(arena, saving, floor + amount);
    return victim;
}

ref_t saving_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t ref,
                    uint64_t amount)
{
    struct saving *saving = &miner->saving;
    struct node *node = tree_node(arena, ref);
    if (amount != saving->weight) {
        saving->weighted = saving->weight != 0;
        if (!saving->weighted)
            saving->weight = amount;
    }
    if (saving->weighted) // else passes pay for themselves
        pay(saving, node);
    if (miner_monitors(node)) {
        miner_set(&node->value[0], miner_count(node) + amount);
        return 0;
    }
    if (miner->count < miner->counters && miner_append(arena, tree, miner, ref)) {
        const uint64_t floor = atomic_load_explicit(&miner->floor, memory_order_relaxed);
        miner_begin(node, floor + amount, floor);
        miner_add_excess(miner, floor);
        return 0;
    }
    if (miner->count == 0 ||
        !miner_is_whole(arena,
                        miner)) { // not even one: nothing can be said but how much was charged
        miner_add_excess(miner, 0 - amount);
        return 0;
    }
    return take_over(arena, tree, miner, ref, amount);
}

ref_t saving_give_up(struct arena *arena, ref_t tree, struct miner *miner)
{
    if (miner->count == 0 || !miner_is_whole(arena, miner))
        return 0;
    const ref_t victim = *find_coldest(arena, tree, miner);
    const uint64_t count = miner_count(tree_node(arena, victim));
    miner_remove(arena, miner, miner->saving.at);
    miner_end(tree_node(arena, victim));
    miner_raise_floor(miner, count);
    miner_add_excess(miner, 0 - count);
    return victim;
}
