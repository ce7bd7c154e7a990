// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_EVENT_CONTEXT_H
#define CAIRN_TRACK_ENCODE_EVENT_CONTEXT_H

// The context of a thread that has called us, by its number: for events that come from the program
// itself. A number is believed if a walk has once said the same for it, at that place; then the
// function there must have been called from where it was, too. So the cost is that of a look into a
// table, and whatever makes a number wrong costs a walk.

#include "track/encode/encode.h"

#define ENCODE_NOTES 8192

struct encode_note {
    _Alignas(64) uint64_t key; // of ccStack, id and pc
    uint64_t id;
    uintptr_t pc;
    uintptr_t caller;  // the word that the function at pc returns by,
    uint32_t distance; // so far above the stack pointer
    uint32_t depth, stamp;
    uint32_t unloads; // of libraries, before it was made
    ref_t tree, node;
};

// Of one thread; zeroed memory.
struct encode_event_cache {
    // Contexts until one is walked to see what the number says: of those that one tells, and of the
    // others.
    struct encode_turn {
        uint32_t left, period;
        uint32_t doubled; // how often, because it was always the same
    } told, untold;
    uint32_t stamp;           // of the encoding for which that is so
    bool some;                // there are notes
    bool due;                 // to be told of the walk that comes,
    struct encode_turn *turn; // and whose turn it is; NULL: always
    struct encode_note note[ENCODE_NOTES];
};

// The node of the place that a call returns to, if the calling thread's number tells it; else 0.
// Now and then, and always to verify, it is not told, for a walk to look at it.
ref_t encode_event_node(struct encode_event_cache *notes, struct walker *walker, uintptr_t pc,
                        uintptr_t sp);

// The same place has been walked to, and this is its node: notes what the number says, if that was
// due and says the same.
void encode_event_walked(struct encode_event_cache *notes, const struct walker *walker,
                         uintptr_t pc, uintptr_t sp, uintptr_t bp, ref_t node);

#endif
