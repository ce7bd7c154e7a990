// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_RUNTIME_SPOTS_H
#define CAIRN_TRACK_RUNTIMES_RUNTIME_SPOTS_H

// The functions and lines of a runtime's instructions that were met before. Signal-safe. Memory is
// used again for other code: after some hundred samples, they are looked up anew.

#include "track/runtimes/runtime_names.h"

// A new sample begins.
void runtime_spots_begin(void);

enum runtime_spot_age {
    SPOT_UNKNOWN,
    SPOT_OLD, // known, but memory may have been used again since
    SPOT_FRESH,
};

// `instruction` and `code` are what the runtime likes, but never 0 or 1.
enum runtime_spot_age runtime_spot_recall(uintptr_t instruction, uintptr_t code,
                                          struct runtime_frame *frame);

// Says so, or once more that it still holds.
void runtime_spot_remember(uintptr_t instruction, uintptr_t code,
                           const struct runtime_frame *frame);

#endif
