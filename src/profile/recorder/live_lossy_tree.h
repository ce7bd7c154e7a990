// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_LOSSY_TREE_H
#define CAIRN_PROFILE_RECORDER_LIVE_LOSSY_TREE_H

// A tree in the live memory that forgets (tree/stable.h): its nodes come and go, so there is no
// "what is new since the last time". It is read as a whole, and compared with what the profile has:
//
//   the same nodes, the same values    nothing is told
//   the same nodes                     the values that changed
//   other nodes                        the tree anew
//
// In the profile a context's own cost lies in a statement without an address below its frame. So
// the costs of all trees lie in statements, and readers need not ask for the kind.

#include "profile/recorder/live_tree.h"

// As live_tree_update() does it for trees that only grow. True if anything was encoded.
bool live_lossy_tree_update(struct live_tree *tree, const struct tree_source *source, ref_t ref,
                            struct live_sink *sink);

#endif
