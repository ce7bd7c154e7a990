// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_FOLD_H
#define CAIRN_PROFILE_MERGE_FOLD_H

// Adding trees to trees, and keeping the profile of a fork storm small.

#include "profile/profile.h"

struct tree_merger; // a tree that others are added to

// The tree must stay where it is until tree_merger_free(). NULL: out of memory.
struct tree_merger *tree_merger_new(struct profile_tree *into, unsigned metrics);
// Adds nodes, values, stats and threads. went: by node of the tree, which node it became; NULL: not
// asked for. 0 or -ENOMEM.
int tree_merger_add(struct tree_merger *merger, const struct profile_tree *tree, uint32_t *went);
void tree_merger_free(struct tree_merger *merger);

// When more than `most` ended processes have trees of their own, half of that number, the
// costliest, keep them. The trees of the others are added up by program (first word of the command)
// and start routine, under the first process of that program. Processes with apart[index] set keep
// theirs. A folded process stays in the list with its own totals, and merged_into says where its
// trees went. tree_map, of tree_count entries, receives the new index of each tree. 0 or -ENOMEM.
int profile_fold(struct profile *profile, unsigned most, const bool *apart, uint32_t *tree_map);

#endif
