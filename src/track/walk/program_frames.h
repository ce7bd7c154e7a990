// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_PROGRAM_FRAMES_H
#define CAIRN_TRACK_WALK_PROGRAM_FRAMES_H

// The frames of the calling thread's stack as the program made them, youngest first. The marker is
// replaced by the return address that it stands for. A function that the agent has called was
// called, for a reader, from where the agent was.
//
//   struct program_frames frames;
//   if (program_frames_begin(&frames, &caller, stack))
//       while (program_frames_next(&frames, &frame)) ...
//   frames.verdict      how it ended
//
// Walks that ask for more than the program's frames step by themselves:
//
//   track/walk/unwind_pass.c                      a sample's, many frames at once, to the marker
//   track/calls/find_caller.c                     to a frame that has a cell; the agent's own frames,
//                                                 and the recipe by which each was left
//   track/encode/threads/state_from_stack.c       all frames: each may lie in a stub
//   track/encode/contexts/climb.c                 the same for the next few
//   outside/foreign_walk.c                        stacks of another process, without an agent
//
// A sample of this thread may move the marker meanwhile: then the walk ends as one that is cut.

#include "unwind/unwind.h"

struct program_frame {
    place_t function;
    place_t site;    // the return address in its caller; 0: it has none
    uintptr_t slot;  // where that lies; 0: not known
    uintptr_t begin; // of the function; of code without tables, where it goes on
    uint16_t flags;  // FRAME_*
};

struct program_frames {
    struct unwind_cursor cursor;
    place_t point;        // where the youngest frame goes on
    enum verdict verdict; // VERDICT_COMPLETE: the frames reached the root
    bool more;
};

// From a caller. False: the marker was at its pc, and is not any more.
bool program_frames_begin(struct program_frames *frames, const struct caller_registers *caller,
                          struct unwind_bounds stack);

// From where a cursor stands.
void program_frames_begin_at(struct program_frames *frames, const struct unwind_cursor *cursor);

bool program_frames_next(struct program_frames *frames, struct program_frame *frame);

#endif
