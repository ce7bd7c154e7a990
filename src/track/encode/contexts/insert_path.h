// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_CONTEXTS_INSERT_PATH_H
#define CAIRN_TRACK_ENCODE_CONTEXTS_INSERT_PATH_H

// The node of a decoded path in trees that forget. 0: no memory. Signal-safe.

#include "track/encode/contexts/climb.h"

void encode_learn_above(struct encode_thread *thread, const struct walker *walker, ref_t node);
// The node of the path in thread->path, of the tree in which above was learnt. 0: no memory.
ref_t encode_insert_path(struct encode_thread *thread, struct walker *walker);

// The same for bounded trees: what lies above is found by a walk from `start`; the node is that of
// what was climbed from. 0: no memory, or it is not known what lies above.
void encode_walk_above(struct encode_thread *thread, const struct walker *walker,
                       const struct unwind_cursor *start);
ref_t encode_insert_bounded(struct encode_thread *thread, struct walker *walker,
                            const struct encode_climbed *climbed, uint64_t weight);

#endif
