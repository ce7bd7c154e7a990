// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_DEFERRED_CALLS_H
#define CAIRN_TRACK_CALLS_DEFERRED_CALLS_H

// Calls that a signal's handler makes while the hook that it has interrupted is changing the tree.
//
//   f ── hook of g, in the tree ── signal ── handler ── h      h is noted, with the frames down to
//                                                              the hook: the handler's alone
//   f ── g                                                     h hangs below g and the handler
//
// They are noted then, and counted when the tree is whole again.

#include "track/calls/call_cache.h"

// Notes a call: its slot, back and bp are given. In a handler, with the tree shut.
void deferred_calls_note(struct calls_thread *calls, const struct known_call *call);

// The missed call, of those before another one, that has this return address in this slot; NULL.
const struct deferred_call *deferred_calls_entry(const struct calls_thread *calls,
                                                 const struct deferred_call *before, uintptr_t slot,
                                                 uintptr_t site);

static inline bool deferred_calls_any(const struct calls_thread *calls)
{
    return __atomic_load_n(&calls->deferred_count, __ATOMIC_RELAXED) != 0;
}

// Counts them. With the tree open; `slot` as for calls_shut(). Takes the loader's word: vector
// registers do not survive this.
void deferred_calls_settle(struct calls_thread *calls, uintptr_t slot);

#endif
