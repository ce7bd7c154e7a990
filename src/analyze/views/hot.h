// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_VIEWS_HOT_H
#define CAIRN_ANALYZE_VIEWS_HOT_H

// The hot calling context tree: of all contexts, those that have at least phi of the whole, and
// their callers.
//
//   root                                root
//    ├─ a ── b 900                       ├─ a ── b 900        phi * N = 50
//    │  └─── c 3                 ──►     └─ d 60
//    └─ d 60 ── e 7                      10 of 970 are outside
//
// A context is the same in all threads and processes: their costs in it are added up.

#include "profile/profile.h"

// The cost that a tree was charged in a metric: that of its contexts and of forgotten ones, less
// the contexts' errors.
uint64_t hot_whole_tree(const struct profile *profile, const struct profile_tree *tree,
                        unsigned metric);
uint64_t hot_whole(const struct profile *profile, unsigned metric); // of all trees: N

// How much more contexts have than was charged, by their errors; negative: less. Of all trees.
int64_t hot_made_up(const struct profile *profile, unsigned metric);

struct hot_choice {
    double phi;     // of N; 0: all
    bool sure_only; // without contexts more than half of whose counts may be an error
};

// The choice that shows a profile: contexts of at least phi (0: as it was recorded), as far as they
// are known for sure.
struct hot_choice hot_shown(const struct profile *profile, double phi);

// The cost that phi of all of it is, at least 1. 0: phi is 0.
double hot_least(const struct profile *profile, unsigned metric, double phi);

struct hot_cut {
    uint64_t contexts; // that are hot
    uint64_t unsure;   // that are not, because of their errors alone
    uint64_t hottest;  // the cost of the hottest context
};

// Drops all contexts from the profile that are not chosen by a metric and have none below them that
// is.
struct hot_cut hot_prune(struct profile *profile, unsigned metric, const struct hot_choice *choice);

// How the counters of hot trees were used. Of several trees, the one that is used most.
struct hot_use {
    uint64_t contexts;      // with a counter
    uint64_t whole;         // all costs there
    uint64_t counters;      // that it may have
    uint64_t floor;         // the most that a context without a counter can have had
    uint64_t largest_error; // of any context
};

struct hot_use hot_use(const struct profile *profile);

#endif
