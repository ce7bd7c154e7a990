// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RANKS_H
#define CAIRN_PROFILE_RANKS_H

// The costs that each of the profiles that were merged has.
//
// There are thousands of ranks with thousands of costs each. So a rank keeps them as they lie in
// the file: sections of a metric, a tree, a number of costs, and for each of these its node, as the
// difference to the one before, and its value.

#include "profile/chunks/bytes.h"
#include "profile/profile.h"

// A rank's part of the cost of a node.
struct rank_cost {
    uint32_t metric, tree, node; // indices
    uint64_t value;
};

// Goes through the costs of a rank.
struct rank_cursor {
    const struct profile *profile;
    struct cursor bytes;
    uint64_t left; // in this section
    struct rank_cost cost;
};

void rank_cursor_start(struct rank_cursor *cursor, const struct profile *profile, uint32_t rank);
// NULL after the last. Costs of nodes that the profile has not are left out.
const struct rank_cost *rank_cursor_next(struct rank_cursor *cursor);

#endif
