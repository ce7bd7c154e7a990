// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_WALK_H
#define CAIRN_TRACK_WALK_WALK_H

// The walk tracker: from a sample to its node in the tree, walking only the frames that are new.

#include "track/walk/walker.h"

// A walker for the calling thread. 0 or -errno (no memory). For a bounded tree, set its limit, and
// without a marker, whether it walks to the root.
int walk_open(struct walker *walker, const struct tracker_place *place, bool use_marker);

// Takes the marker from the stack and frees the list. Signals must be blocked or the walker out of
// their reach.
void walk_close(struct walker *walker);

// The recording is over, and another thread says so: takes the marker from the stack while its
// thread runs. The walker's memory stays readable until walk_close().
void walk_abandon(struct walker *walker);

// Continues with another tree, in a sample before the walk: nothing of the last one is known there.
// Signal-safe.
void walk_turn_to(struct walker *walker, ref_t tree, struct live_stats *stats);

// The node to charge for a sample of the interrupted code. Signal-safe, all signals blocked. Never
// 0. The edges that are new are charged here: of them, `weight` is the sample's cost (in a bounded
// tree; others have no weights of edges).
ref_t walk_sample(struct walker *walker, const void *ucontext, uint64_t weight);

// The same for a call from the program. In normal context, or a signal's handler that has not
// interrupted the walker.
ref_t walk_here(struct walker *walker, const struct caller_registers *caller, uint64_t weight);

// How a sample taken at every N-th call weighs the edges of its context (ACCT, section 3.1).
enum walk_weights {
    WALK_WEIGH_LAST,    // only the call that was the N-th: right
    WALK_WEIGH_ALL_NEW, // all calls since the last sample that are still active: wrong, and
                        // instructive
};

// A sample at a call: the function at entered->pc has just been entered, its return address is at
// entered->sp. Adds `amount` to the frames that the weights name. In normal context, or a signal's
// handler.
void walk_call(struct walker *walker, const struct caller_registers *entered, uint64_t amount,
               enum walk_weights weights);

// Takes the marker from the stack, and none is placed until walk_resume(). Nests. For the calling
// thread's walker, in normal context.
void walk_suspend(struct walker *walker);
void walk_resume(struct walker *walker);

// The calling thread jumps to where its stack pointer is `goal`: the frames below it end, and the
// marker moves to the youngest that stays. In normal context, or a handler of the program's;
// `frame` is that of the function of ours.
void walk_jump(struct walker *walker, uintptr_t goal, const void *frame);

// An unwinder of the program wants the table of the function at pc, or all tables (0):
// program_unwinders.h. `frame` is the frame address of the function that it has called for that. In
// normal context, or a handler of the program's.
void walk_unwinder_asks(uintptr_t pc, const uintptr_t *frame);

#endif
