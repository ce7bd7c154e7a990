// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_REFINE_H
#define CAIRN_ANALYZE_TREE_REFINE_H

// Call path refinement: from all paths to those one asks about. All return a new tree, summed.

#include "analyze/tree/calltree.h"
#include "analyze/tree/pattern.h"

#define REFINE_LIMIT 32 // patterns at a time

struct pattern_list {
    struct pattern *patterns[REFINE_LIMIT];
    unsigned count;
};

// Only paths on which every pattern of `through` matches some function, and none of `without` does.
// They are kept whole.
struct calltree *refine_paths(const struct calltree *tree, const struct pattern_list *through,
                              const struct pattern_list *without);

// Only paths through a match, cut off above it: the outermost match is below the root, merged over
// all its callers.
struct calltree *refine_focus(const struct calltree *tree, struct pattern *pattern);

// The costliest contexts alone, about so many, by their largest share in any cost. Under each, the
// others are one node, SMALL_CONTEXTS. *went, to be freed: by node, where its cost is in the new
// tree. Counts the contexts that are left out.
#define SMALL_CONTEXTS "<small contexts>"
struct calltree *refine_costliest(const struct calltree *tree, size_t most, uint32_t **went,
                                  size_t *left_out);

// Recursion folded: a function is on a path once. The cost of inner calls of a function, direct or
// not, counts at the first one:
//
//   sort 1 ── sort 2 ── compare 3        sort 3 ── compare 8
//          └─ compare 5
struct calltree *refine_recursion(const struct calltree *tree);

#endif
