// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_ENTRIES_ENTRIES_H
#define CAIRN_PATCH_ENTRIES_ENTRIES_H

// Functions that begin with a no-op of five bytes (-fpatchable-function-entry=5), and turning those
// into calls of a hook and back.
//
//   off:  0f 1f 44 00 00     one no-op: no thread is ever in the middle of it
//   on:   e8 rel32           call of the module's relay, a jump to the hook
//
// The compiler may leave five no-ops of one byte each; they become one before the program runs.

#include "patch/entries/entry_code.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Finds the entries of all modules loaded now that were not known yet and prepares them (off).
// `hook` is what they will call. In normal context, with no other thread in the new modules. The
// number of entries that were added, or -errno; *skipped counts those that do not look as they
// should.
int64_t entries_find(void (*hook)(void), uint64_t *skipped);

// From now on relays count calls down in cells of each thread, and let those through to the hook
// that find theirs negative. In bursts, the cell lies so far from the thread pointer, a multiple of
// 16. A relay that finds the lowest number there goes to `turn` instead, as if that were the hook.
// Between bursts, it is the next one. Before entries are found.
void entries_pace(int32_t cell, void (*turn)(void));

// The same for libraries that came since, which are switched as the others are, and forgets those
// that have gone. Under the loader's lock: see loader.h.
int64_t entries_find_new(bool gone);

// Switches all of them. Signal-safe, but for one thread at a time. Any number of threads may be
// running in them, if `alone` is false; it is cheaper if true (no other thread in this process). 0
// or -errno.
int entries_switch(bool on, bool alone);

// Turns calls of the relays back at once, for good.
int entries_shut(void);

// A burst begins or ends. Entries stay on between bursts, where their relays let calls pass, but
// for those that are *quiet*: that takes a write for each of them, and every call of others a
// nanosecond. Quiet ones are forgotten after a while, since programs change. As entries_switch().
int entries_burst(bool running, bool alone);

// Between bursts: the entry whose hook returns there is called so often that it had better be
// quiet. As entries_switch().
void entries_quieten(uintptr_t back, bool alone);

// A thread has run into the trap of an entry that is being switched: returns where it continues. 0:
// not our trap. Signal-safe.
uintptr_t entries_trapped(uintptr_t pc);

// True if `address` is the byte after an entry's call: the return address of a hook.
bool entries_is_return(uintptr_t address);

// True if the address lies between an entry and the hook. Signal-safe.
bool entries_is_relay(uintptr_t address);

// True if entries of two modules have had the same lower half of their addresses. Signal-safe.
bool entries_are_ambiguous(void);

#endif
