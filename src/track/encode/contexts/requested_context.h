// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_CONTEXTS_REQUESTED_CONTEXT_H
#define CAIRN_TRACK_ENCODE_CONTEXTS_REQUESTED_CONTEXT_H

// The short way to a context that the program asks for: inline, because it may ask with every event.

#include "track/context_id/context_id.h"
#include "track/encode/threads/epoch.h"

// The context of the calling thread if its number was confirmed before in the same state: same
// code, same stack pointer, same caller, same number and ccStack. Else handle 0. Signal-safe.
//
// A state that is wrong for a reason that is known says so. A thread that is about to longjmp has
// the state of its landing place, and asks nothing before that. Sites that do not lead where the
// encoding says are found when it is made, before anything of it is remembered.
static inline struct context_id encode_requested(uintptr_t pc, uintptr_t sp)
{
    const struct encode_state *state = &encode_state;
    const struct encode_thread *thread = state->thread;
    const struct context_id none = {0, 0};
    if (!thread)
        return none;
    const uint32_t changes = confirmed_changes(&thread->confirmed);
    const uint64_t id = state->context.id;
    const struct confirmed *known =
        confirmed_find(&thread->confirmed, context_key(&state->context, pc), pc);
    if (!known || !known->handle || known->sp != sp || state->context.over ||
        state->validity != STATE_VALID || encode_is_below_jump(state, sp))
        return none;
    const struct context_id value = {id, known->handle};
    // Last: if it was encoded anew meanwhile, the above was read from two encodings. The thread was
    // on this one, so it still is if that is in force.
    atomic_signal_fence(memory_order_seq_cst);
    const uint32_t stamp = __atomic_load_n(&encode.numbering.options.stamp, __ATOMIC_RELAXED);
    const bool holds = known->stamp == stamp && encode_still_holds(known, sp);
    return holds && confirmed_is_whole(&thread->confirmed, changes) ? value : none;
}

#endif
