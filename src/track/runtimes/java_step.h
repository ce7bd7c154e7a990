// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_JAVA_STEP_H
#define CAIRN_TRACK_RUNTIMES_JAVA_STEP_H

// From a frame of a Java virtual machine's generated code to its caller, as unwind_runtime has it:
// the cursor stands in the frame, and gets what the frame stands for in cursor->generated.
// Signal-safe.

#include "unwind/slow_steps.h"

enum unwind_leave java_leave(struct unwind_cursor *cursor, struct frame_caller *caller);

#endif
