// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_PROGRAM_UNWINDERS_H
#define CAIRN_TRACK_WALK_PROGRAM_UNWINDERS_H

// Unwinders of the program at work, seen or unseen. For all of them the marker is one frame more,
// and those that are linked into the program cannot be interposed. But they ask the loader for
// tables, and the agent answers (src/agent/interpose/dl_interpose.c). libgcc asks for each frame,
// before it reads the frame's return address, and first of all for the table of its own outermost
// function:
//
//   F ─► _Unwind_Backtrace ─► ... ─► _dl_find_object(_Unwind_Backtrace)     the marker is lifted
//                          ─► ... ─► _dl_find_object(F)
//
// From the first of these questions on, and as long as a sample finds that outermost function on
// the stack, the thread has no marker. Before the first question it reads its own return address,
// and functions that do are never marked (unmarkable.h).
//
// Others ask once and remember (libunwind): seen_unwinders.h.

#include "track/walk/program_frames.h"
#include "track/walk/walker.h"

// The outermost function of an unwinder is that whose table it wants first. One that begins with
// its caller's is at work, for us, as long as the caller is.
enum program_unwinder_stage {
    PROGRAM_UNWINDER_BEGINS,
    PROGRAM_UNWINDER_GOES_ON,
    PROGRAM_UNWINDER_UNKNOWN, // it asks in another way
};

// By the question of an unwinder on a stack that ends at `high`, as walk_unwinder_asks() has it; pc is
// not 0. *unwinder is the frame of its outermost function, if that is known. In normal context.
enum program_unwinder_stage program_unwinder_stage(uintptr_t pc, const uintptr_t *frame,
                                                   uintptr_t high, struct program_frame *unwinder);

// Whether it may still be at work, by the frames of the last sample. Signal-safe.
bool program_unwinder_goes_on(struct walker *walker);

#endif
