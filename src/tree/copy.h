// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_COPY_H
#define CAIRN_TREE_COPY_H

// A copy of a tree that its owner goes on writing, in an arena that readers of trees understand:
// for snapshots. It holds the contexts that stable.h finds, parents before children, and what they
// need; nothing can be inserted into it.

#include "tree/stable.h"

// Copies what was read of the tree `from`. The reference of the copy; 0: no room there.
ref_t tree_copy(struct arena *to, const struct stable_tree *stable, const struct arena *arena,
                uint64_t arena_bytes, ref_t from);

#endif
