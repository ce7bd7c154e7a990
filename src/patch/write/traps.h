// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_WRITE_TRAPS_H
#define CAIRN_PATCH_WRITE_TRAPS_H

// Among threads, rewriting passes through traps, and a thread that blocks SIGTRAP would be killed
// by one. Signal-safe.

#include <stdbool.h>

// Before a thread blocks it: true, and no trap is written until traps_release(). False: there are
// some, for the moment.
bool traps_hold(void);
void traps_release(void);
// Holds them as soon as there are none, and for good.
void traps_hold_for_good(void);

// Around the passes. False: traps are held.
bool traps_begin(void);
void traps_end(void);

#endif
