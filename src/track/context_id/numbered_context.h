// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_NUMBERED_CONTEXT_H
#define CAIRN_TRACK_CONTEXT_ID_NUMBERED_CONTEXT_H

// Context ids by the number of a thread, for context_id.c: encode/contexts/requested_context.c knows
// them.

#include "live/live.h"
#include "tree/tree.h"
#include "unwind/unwind.h"

struct context_id {
    uint64_t id, handle; // handle 0: not known
};

// The place of a request: its caller, and the bounds of the thread's stack.
struct context_place {
    struct caller_registers caller;
    struct unwind_bounds stack;
};

enum { CONTEXT_ID_FRAMES = 1 << 16 }; // deeper stacks are not known

// A thread that requests contexts; made with its first request.
struct requesting_thread {
    uint32_t busy;                  // it is being changed: a signal's handler must not
    uint32_t origin, walked_origin; // nodes; 0: not made yet
    struct context_id creator;      // context of the call that created the thread
    uint32_t creator_told;          // 1: if it is known at all
    struct edge frames[CONTEXT_ID_FRAMES];
};

// The context, if a walk agrees with the number; false: the number does not lead to it. If memory
// is used up it is not known. Signals are blocked.
bool numbered_context(struct requesting_thread *requesting, const struct context_place *place,
                      struct context_id *value);

// Where the return address of the calling thread's first function lies; 0: not known.
uintptr_t numbered_context_root_slot(void);

// No section was published yet, in a new slice.
void numbered_context_restart(void);

#endif
