// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_RANK_COSTS_H
#define CAIRN_PROFILE_MERGE_RANK_COSTS_H

// Ranks of a profile that is being made; profile/ranks.h reads them.

#include "profile/ranks.h"

// Adds a rank without costs. NULL: out of memory. The name is copied.
struct profile_rank *ranks_add(struct profile *profile, const char *name, uint64_t metrics);

// Gives a rank its costs, which are sorted; those of the same node are added up. 0 or -ENOMEM.
int rank_set_costs(struct profile_rank *rank, struct rank_cost *costs, size_t count);

#endif
