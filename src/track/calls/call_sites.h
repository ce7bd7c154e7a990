// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_CALL_SITES_H
#define CAIRN_TRACK_CALLS_CALL_SITES_H

// Follows the calls of a program that was not prepared for it. Its call sites lead to the hook of
// calls.h by detours (patch/detour.h) or, if they are too short for that, by stubs (patch/sites.h).
//
// Modules play parts. Of *followed* ones each call counts, whatever it leads to. Of all others, as
// libc, only calls into followed ones do: those of qsort's comparison, of what atexit() was given.
// So a function of a followed module is noticed whenever it is entered, but by the kernel (signal
// handlers), by the loader (constructors), and by what cannot be patched.
//
// A cell of a shadow is written for functions that were noticed, and for no others. It is valid for
// an active function exactly if it has its return address and its name.

#include "live/live.h"
#include "unwind/unwind.h"
#include <stdbool.h>

// Patches all that is loaded. In normal context, while no other thread runs. Counts the sites in
// `counts`. Exactly: as calls_start() has it. 0 or -errno: see sites_start().
int calls_sites_start(enum live_by by, bool exactly, struct live_encode *counts);

// Libraries have come, and others may have gone. Under the loader's lock. Those that have come are
// not ready yet.
void calls_sites_changed(bool gone);

// Patches those, while no other thread runs. 0 or -errno.
bool calls_sites_are_pending(void);
int calls_sites_take_pending(void);
// Leaves them as they are: other threads run.
void calls_sites_leave_pending(void);

void calls_sites_after_fork(struct live_encode *counts);

// True if calls are followed in this way. Signal-safe, as all below.
extern bool calls_by_sites __attribute__((visibility("hidden")));

// The call that a hook reports, by what it found: the word in the slot, and `back`.
struct site_call {
    uintptr_t site; // the return address, perhaps in a stub
    uintptr_t function;
};
struct site_call calls_sites_resolve(uintptr_t word, uintptr_t back);

// True if the function that begins there is one of a followed module, and not a part of another.
bool calls_sites_follows(uintptr_t function);

// True if the function that returns to this address was noticed when it was called.
bool calls_sites_notices(uintptr_t return_address, uintptr_t function);

// True if the agent is called back there: tail jumps of libc on our way.
bool calls_sites_are_ours(uintptr_t return_address);

// Start routines of threads return there, and are noticed by us.
void calls_sites_note_root(uintptr_t return_address);

// The return address without stubs.
uintptr_t calls_sites_true(uintptr_t address);

#endif
