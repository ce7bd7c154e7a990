// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_GATE_H
#define CAIRN_LOADMAP_GATE_H

// Keeps readers of a module's memory and dlclose apart; the other half of loadmap_enter/leave.

#include <stdbool.h>

// True while a thread is inside dlclose. Asked after loadmap_enter. Signal-safe.
bool gate_is_closing(void);

// The end of what loadmap_before_unload began.
void gate_open(void);
void gate_after_fork(void);

#endif
