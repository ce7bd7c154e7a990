// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_CONTEXTS_INSERT_PATH_H
#define CAIRN_TRACK_ENCODE_CONTEXTS_INSERT_PATH_H

// The node of a decoded path in trees that forget. Signal-safe.

#include "track/encode/contexts/climb.h"

// How the thread came to the function that its numbers begin with: all paths have that in common. A
// walk from `start` finds it, once for each tree.
void encode_walk_above(struct encode_thread *thread, const struct walker *walker,
                       const struct unwind_cursor *start);
// The node of the path in thread->path, in the tree of the last such walk. 0: no memory.
ref_t encode_insert_path(struct encode_thread *thread, struct walker *walker);
// The same in a bounded tree, of what was climbed from. 0: also if there was no such walk.
ref_t encode_insert_bounded(struct encode_thread *thread, struct walker *walker,
                            const struct encode_climbed *climbed, uint64_t weight);

#endif
