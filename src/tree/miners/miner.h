// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_MINERS_MINER_H
#define CAIRN_TREE_MINERS_MINER_H

// Which contexts of a stream are the hot ones, in small space: counters for some of the contexts,
// and a rule that says which. The contexts that have one are monitored: M. Counters lie in the
// nodes themselves (value[0] the count, value[1] its error), so that no dictionary is needed.
//
//   Space Saving       1/epsilon counters. A context that has none takes that of the coldest, with
//                      its count. Exact as long as there are no more contexts than counters.
//   Lossy Counting     a counter for each new context; every 1/epsilon events, those that cannot
//                      be hot are dropped.
//   Sticky Sampling    a counter for a new context by chance, ever more rarely.
//
// Invariants. N is all that was charged; `floor` is the most that a context without a counter can
// have had (with Sticky Sampling: with high probability):
//
//   Space Saving, Lossy Counting    count - error <= true <= count,    error <= floor
//   Sticky Sampling                 count <= true <= count + floor,    error = 0
//   all of them                     sum of counts = N + excess  (modulo 2^64)
//
// Events may have different weights. With equal ones (and for Lossy Counting), floor is at most
// N/counters; with different ones, Space Saving's is at most twice the mean count. space_saving.c
// explains that, and the cost of a search for the coldest.
//
// The owner of the tree alone calls these, all are signal-safe.

#include "tree/tree.h"

enum { MINER_FIRST = 16, MINER_PARTS = 26, MINER_BUCKETS = 256 };

struct saving {
    uint32_t at;       // where the pass over M stands
    uint32_t weighted; // events have had different weights
    uint64_t limit;    // contexts up to this count are cold enough to lose their counters
    uint64_t weight;   // of the first event
    // Of the contexts that the pass has passed.
    uint64_t least, sum;
    uint32_t passed;
    uint32_t scanned; // in this pass: more, if a victim's place is still among the coldest
    // Paid for by events and not used up by scans; `fresh` and `ripe` from the one pass and the
    // one before it, which must not be spent yet.
    uint64_t credit, fresh, ripe;
    ref_t histogram; // of counts above the limit
};

struct lossy {
    uint64_t events; // in this window
    uint64_t hot;    // epsilon * N at the end of the last one
    uint32_t sweeping;
    uint32_t at;
};

struct sticky {
    uint64_t charged; // N, less what hooks have counted since it was summed up
    uint64_t counted; // events since then
    uint64_t items;   // 1/epsilon * ln(1/(phi * delta))
    uint64_t rate;    // one in so many is taken
    uint64_t skip;    // events until one is
    uint64_t random;
    uint32_t sweeps; // the rate is to double so often, and M to be thinned each time
    uint32_t sweeping;
    uint32_t at;
};

struct miner {
    // The owner writes, readers may look.
    _Atomic uint64_t floor;
    _Atomic uint64_t excess;
    uint32_t kind;     // enum tree_miner
    uint32_t count;    // monitored contexts
    uint32_t turn;     // of those that may have to go for want of memory
    uint32_t room;     // for contexts in M
    uint64_t counters; // that it may have: 1/epsilon
    uint64_t events;   // that came one by one: not those that hooks count by themselves
    uint64_t scans;    // contexts looked at in search of the coldest
    // The owner's alone.
    ref_t parts[MINER_PARTS]; // of M: references of nodes, 16 in the first part, 32, 64 ...
    union {
        struct saving saving;
        struct lossy lossy;
        struct sticky sticky;
    };
};

// False: options that make no sense.
bool miner_start(struct miner *miner, const struct tree_options *options);

// An event: update(x, M). Returns the first victim of it, which is not monitored any more; the
// others are to be asked for then, until there is none. 0: none.
static inline ref_t miner_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                                 uint64_t amount);
static inline ref_t miner_victim(struct arena *arena, struct miner *miner);

// Gives up the counter of a cold context for want of memory. 0: there is none.
ref_t miner_give_up(struct arena *arena, ref_t tree, struct miner *miner);

static inline bool miner_monitors(const struct node *node)
{
    return node->value[0] != 0;
}

// Of Space Saving, which has one victim at most, and of the others.
ref_t saving_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                    uint64_t amount);
ref_t others_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                    uint64_t amount);
ref_t others_victim(struct arena *arena, struct miner *miner);

static inline ref_t miner_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                                 uint64_t amount)
{
    miner->events++;
    return (miner->kind == TREE_SPACE_SAVING ? saving_update : others_update)(arena, tree, miner,
                                                                              node, amount);
}

static inline ref_t miner_victim(struct arena *arena, struct miner *miner)
{
    return miner->kind == TREE_SPACE_SAVING ? 0 : others_victim(arena, miner);
}

#endif
