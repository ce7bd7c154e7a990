// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_STACK_CACHE_H
#define CAIRN_TRACK_WALK_STACK_CACHE_H

// Walks that need not be repeated, for events that are frequent and come from the program itself.
//
// A walk reads words of the stack: return addresses, here and there a frame pointer. When the
// program comes again to the same place with the same stack pointer, and all these words are what
// they were, the walk would read them again and come to the same node. Comparing them costs a
// nanosecond a frame, and moves no marker.
//
//   (pc, sp) ─► trail ─► [ place, value ][ place, value ] ...  ─► all the same: its node
//
// Deep stacks: a walk, and so a trail, ends at the marker, if that is the same one, not moved
// since.

#include "track/walk/walk.h"

#define CACHED_WALKS 4096
#define TRAIL_WAYS 8
#define CACHED_WALK_WORDS 131072 // of all of them together
#define TRAIL_LONGEST 128        // words

struct cached_walk {
    struct caller_registers caller;
    ref_t tree, node;
    uint32_t first, count; // words
    uint32_t frames;       // of the whole stack
    uint32_t serial;       // of the marker that it ends at; 0: at the root
    uint32_t generation;   // of the load map
    uint32_t by_fp;        // bp matters
};

// Of one thread; zeroed memory.
struct stack_cache {
    struct cached_walk trails[CACHED_WALKS];
    uint32_t used; // words
    uint32_t turn; // which of its ways a new one takes
    struct unwind_word words[CACHED_WALK_WORDS];
};

// The node of that place, if nothing has changed since it was found; else 0. The walker's stats
// count it.
ref_t stack_cache_find(struct stack_cache *trails, struct walker *walker,
                       const struct caller_registers *caller);

// walk_here() has just led to this node.
void stack_cache_keep(struct stack_cache *trails, const struct walker *walker,
                      const struct caller_registers *caller, ref_t node);

#endif
