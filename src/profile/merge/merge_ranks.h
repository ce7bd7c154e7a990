// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_MERGE_RANKS_H
#define CAIRN_PROFILE_MERGE_MERGE_RANKS_H

// Which profile had how much of the cost of each node, while profiles are merged. A profile is one
// rank; a merged one has ranks of its own, which it passes on.

#include "profile/merge/rank_costs.h"

struct rank_costs {
    struct rank_cost *list;
    size_t count;
};

// One profile that is taken in. All 0: its ranks are not kept.
struct rank_merge {
    struct profile *into;
    const struct profile *from;
    const unsigned *metric_map;
    uint32_t first; // in `into`: the first of its ranks
    uint32_t *went; // of one tree: by node, which node it became
    size_t went_capacity;
    struct rank_costs *costs; // by its ranks, so far
};

// Adds the ranks of a profile, without costs. metric_map: by its metrics, those of `into`. 0 or
// -ENOMEM.
int rank_merge_begin(struct rank_merge *merge, struct profile *into, const struct profile *from,
                     const unsigned *metric_map, const char *name);

// Makes room in `went` for the nodes of a tree. 0 or -ENOMEM.
int rank_merge_room(struct rank_merge *merge, const struct profile_tree *tree);

// Adds the costs of a tree, one of those of the profile. to: the tree that it was added to; went:
// as above, NULL: each node is the same one there. 0 or -ENOMEM.
int rank_merge_tree(struct rank_merge *merge, const struct profile_tree *tree, uint32_t to,
                    const uint32_t *went);

// All trees were added: gives the ranks their costs, unless something failed. `result`, or -ENOMEM.
int rank_merge_end(struct rank_merge *merge, int result);

#endif
