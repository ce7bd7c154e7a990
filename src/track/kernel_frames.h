// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_KERNEL_FRAMES_H
#define CAIRN_TRACK_KERNEL_FRAMES_H

// The kernel's part of a sample, as frames of the module MODULE_KERNEL in a full tree. Trackers do
// not know of it: it hangs below the frame of the statement that they have found.
//
//   frame write ─┬─ statement            the instruction behind `syscall`
//                └─ frame sys_write ─┬─ statement of the kernel
//                                    └─ frame ─── frame ... ─── statement, an instruction
//
// The agent knows addresses of the kernel, and no functions: the beginnings of the frames'
// functions are not known. Readers name them by the places inside.

#include "tree/tree.h"

// The same for another frame that no tracker finds: that of a place, which the code of a statement
// works on. The statement itself if there is no memory, or the tree forgets. Signal-safe.
ref_t frame_below_statement(struct arena *arena, ref_t tree, ref_t statement, place_t place);

// The node to charge for a sample that a tracker has found that statement for: one of the kernel,
// if that has worked for the interrupted code, else the statement itself. Signal-safe.
ref_t kernel_frames_node(struct arena *arena, ref_t tree, ref_t statement, const void *ucontext);

// The same for a call chain of the kernel, oldest last, in the function of a statement that
// kernel_frames_node() has given. Signal-safe.
ref_t kernel_frames_below(struct arena *arena, ref_t tree, ref_t statement, const uint64_t *address,
                          unsigned count);

#endif
