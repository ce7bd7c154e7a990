// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_ENTRIES_H
#define CAIRN_PATCH_ENTRIES_H

// Functions that begin with a no-op of five bytes (-fpatchable-function-entry=5), and turning those
// into calls of a hook and back.
//
//   off:  0f 1f 44 00 00     one no-op: no thread is ever in the middle of it
//   on:   e8 rel32           call of the module's relay, a jump to the hook
//
// The compiler may leave five no-ops of one byte each; they become one before the program runs.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENTRY_BYTES 5

// Finds the entries of all modules loaded now that were not known yet and prepares them (off).
// `hook` is what they will call. In normal context, with no other thread in the new modules. The
// number of entries that were added, or -errno; *skipped counts those that do not look as they
// should.
int64_t entries_find(void (*hook)(void), uint64_t *skipped);

// From now on relays count calls down in a cell of each thread, which lies so far from its thread
// pointer, and let those through to the hook that find it negative. One that finds the lowest
// number goes to `turn` instead, as if that were the hook. Before entries are found.
void entries_pace(int32_t cell, void (*turn)(void));

// The same for libraries that came since, which are switched as the others are, and forgets those
// that have gone. Under the loader's lock: see loader.h.
int64_t entries_find_new(void);

// Switches all of them. Signal-safe, but for one thread at a time. Any number of threads may be
// running in them, if `alone` is false; it is cheaper if true (no other thread in this process). 0
// or -errno.
int entries_switch(bool on, bool alone);

// Lets calls of the relays through to the hook, or turns them back at once: what entries that are
// on cost while off is a call and a return. Signal-safe, with any number of threads running: it
// changes one byte.
int entries_relay(bool on);

// Bytes of code that entries_switch() writes.
size_t entries_bytes(void);

// A thread has run into the trap of an entry that is being switched: where it goes on. 0: not our
// trap. Signal-safe.
uintptr_t entries_trapped(uintptr_t pc);

// True if the byte after an entry's call is `address`: what a hook finds as its return address.
bool entries_is_return(uintptr_t address);

// True if the address lies between an entry and the hook. Signal-safe.
bool entries_is_relay(uintptr_t address);

size_t entries_count(void);

// True if entries of two modules have had the same lower half of their addresses. Signal-safe.
bool entries_are_ambiguous(void);

#endif
