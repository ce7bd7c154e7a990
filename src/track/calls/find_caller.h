// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_FIND_CALLER_H
#define CAIRN_TRACK_CALLS_FIND_CALLER_H

// Finds the caller by a walk, which ends at the first frame with a valid cell in a shadow.

#include "track/calls/call_cache.h"

// Once, before anything else here: where the hook's own code lies, and the function of ours that
// calls handlers of the program.
void caller_start(uintptr_t hook, uintptr_t hands_on);

// Finds the caller of a function that was entered: the call's slot, back and bp are given, the rest
// is found out. *recipe: of the caller's frame. True if that is followed, and the call has no pier.
bool caller_find(struct calls_thread *calls, struct known_call *call, union unwind_recipe *recipe);

// Notes the frames between a missed call and the hook that was interrupted, and touches nothing
// else. False: we have made the call ourselves. Signal-safe.
bool caller_trace(struct calls_thread *calls, const struct known_call *call,
                  struct deferred_call *missed);

// The node of the frame that was interrupted, with all frames that are not followed between it and
// the last one that is; *pc: of the sample, or where a hook was entered from. Signal-safe.
struct node *caller_of_sample(struct calls_thread *calls, const void *ucontext, uintptr_t *pc);

// True if a hook, or code that leads to one and back, was interrupted: this time is cairn's, and
// not the program's. Signal-safe.
bool caller_was_hook(const void *ucontext);

// Gives their cells to the followed functions that a walk finds active, and forgets all others. The
// node of the youngest. Signal-safe.
struct node *caller_resync(struct calls_thread *calls, struct unwind_cursor *cursor);

#endif
