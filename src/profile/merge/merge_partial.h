// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_MERGE_PARTIAL_H
#define CAIRN_PROFILE_MERGE_MERGE_PARTIAL_H

// Laying a tree that knows some functions upon one that knows all.
//
// The calls tracker sees instrumented functions only; a walk also sees all frames between them. The
// call instruction and the function entered are the same for both:
//
//   walked   root ── _start ── main ── qsort ── sort_part ── compare ── strcmp
//                                                    └─ sort_part ── compare
//   calls    root ──────────── main ───────────────────────── compare
//
// So all nodes of the walked tree between which only unknown functions lie are one context of the
// other tree. Samples on top of calls bring unknown functions into that tree as well: these have no
// counts, and go where the walked tree has the same edges. If there are several (qsort above calls
// itself), counts are divided by the cost of each: the cost of a call is then the mean over them,
// which is all that can be known.

#include "profile/profile.h"

struct function_set; // functions

struct function_set *function_set_new(void); // NULL: out of memory
void function_set_free(struct function_set *set);
int function_set_add(struct function_set *set, place_t place); // 0 or -ENOMEM
bool function_set_has(const struct function_set *set, place_t place);

// Adds nodes, values, stats and threads of `tree`, whose profile has counted calls of the functions
// `known` alone. Both trees have the metrics of `profile`, and `into` has a root. 0 or -ENOMEM.
int tree_merge_partial(struct profile_tree *into, const struct profile_tree *tree,
                       const struct profile *profile, const struct function_set *known);

#endif
