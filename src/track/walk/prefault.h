// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_PREFAULT_H
#define CAIRN_TRACK_WALK_PREFAULT_H

// Huge pages ahead of a large tree that grows. Small ones get none: most of a huge page would lie
// there for nothing.

#include "base/arena.h"

// Where the arena is when it is time for the next one.
extern _Atomic uint64_t prefault_next;

void prefault_prepare(const struct arena *arena, uint64_t used);

// Where the program calls us, and not in a handler of ours: a huge page may take half a
// millisecond.
static inline void prefault_look(const struct arena *arena)
{
    const uint64_t used = atomic_load_explicit(&arena_head(arena)->used, memory_order_relaxed);
    if (used >= atomic_load_explicit(&prefault_next, memory_order_relaxed))
        prefault_prepare(arena, used);
}

#endif
