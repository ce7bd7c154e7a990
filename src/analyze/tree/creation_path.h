// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_CREATION_PATH_H
#define CAIRN_ANALYZE_TREE_CREATION_PATH_H

// The call path on which the threads of a tree were created, in the form of a tree that is a single
// path:
//
//   root ── frame ── frame ── call ── frame ── frame ── call
//           (main)   (spawn)          (clone3) (worker)
//
// A call has no function, and its site is a return address. The last node is the call that created
// the threads of the tree.

#include "profile/profile.h"

// Functions, where only some have frames in trees; none: all have.
struct known_functions {
    place_t *places; // ascending
    size_t count;
};

// Those of a profile of followed calls. To be freed.
struct known_functions known_functions(const struct profile *profile);
void known_functions_free(struct known_functions *known);

// Without frames of other functions. A root alone: the creator is not known. Its nodes are to be
// freed; it has no values.
struct profile_tree creation_path(const struct profile *profile, const struct profile_tree *tree,
                                  const struct known_functions *known);

// Whether the creator of any thread is known, or there is none but main threads.
bool creation_is_known(const struct profile *profile);

#endif
