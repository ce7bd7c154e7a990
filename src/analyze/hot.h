// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_HOT_H
#define CAIRN_ANALYZE_HOT_H

// The hot calling context tree: of all contexts, those that have at least phi of the whole, and
// their callers.
//
//   root                                root
//    ├─ a ── b 900                       ├─ a ── b 900        phi * N = 50
//    │  └─── c 3                 ──►     └─ d 60
//    └─ d 60 ── e 7                      10 of 970 are outside
//
// A context is the same in every thread and process: what they spent in it is added up.

#include "profile/profile.h"

struct hot_cut {
    uint64_t *outside; // per tree of the profile: what its dropped contexts had
    uint64_t contexts; // that are hot
};

// What a metric's contexts have in all, with what trees have forgotten: N.
uint64_t hot_whole(const struct profile *profile, unsigned metric);

// Drops all contexts from the profile that are not hot by a metric and have no hot one below them.
void hot_prune(struct profile *profile, unsigned metric, double phi, struct hot_cut *cut);
void hot_cut_free(struct hot_cut *cut);

// How the counters of hot trees were used. Of several trees, the one that is used most.
struct hot_use {
    uint64_t contexts;      // with a counter
    uint64_t whole;         // what was counted there
    uint64_t smallest;      // the smallest counter
    uint64_t largest_error; // of any context
};

struct hot_use hot_use(const struct profile *profile, unsigned metric);

#endif
