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
// Others ask once and remember (libunwind). Where such a one is loaded, or has asked for all tables
// (dl_iterate_phdr()), no marker is placed any more.

#include "track/walk/walk.h"

// The outermost function of an unwinder is that whose table it wants first. One that begins with
// its caller's is at work, for us, as long as the caller is.
enum program_unwinder_stage {
    PROGRAM_UNWINDER_BEGINS,
    PROGRAM_UNWINDER_GOES_ON,
    PROGRAM_UNWINDER_UNKNOWN, // it asks in another way
};

// By the question of an unwinder on a stack that ends at `high`, as below; pc is not 0. *unwinder
// is the frame of its outermost function, if that is known. In normal context.
enum program_unwinder_stage program_unwinder_stage(uintptr_t pc, const uintptr_t *frame,
                                                   uintptr_t high, struct unwind_frame *unwinder);

// An unwinder of the program wants the table of the function at pc, or all tables (0). `frame` is
// the frame address of the function that it has called for that. In normal context, or a handler of
// the program's.
void program_unwinder_asks(uintptr_t pc, const uintptr_t *frame);

// Whether it may still be at work, by the frames of the last sample. Signal-safe.
bool program_unwinder_goes_on(struct walker *walker);

// The program has an unwinder that remembers tables, or may: it looks at stacks without a question.
// Markers of other threads go with their next sample. Signal-safe.
void program_unwinder_expect_memory(void);
bool program_unwinder_has_memory(void);

// The same for an unknown unwinder that asks.
void program_unwinder_forbid_markers(void);
bool program_unwinder_forbids_markers(void);

// `note` is called once, when markers are forbidden, in a signal handler, too. Before the first
// module is found.
void program_unwinder_start(void (*note)(void));

#endif
