// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_WRITE_EDITS_H
#define CAIRN_PATCH_WRITE_EDITS_H

// Code that a transaction writes, in order of address, a page by one system call.
//
// Threads may be running in it. Then it takes three passes, with a barrier behind each: traps
// wherever an instruction begins or began, then what lies between, then the rest. sites_trapped()
// sends a thread on that meets a trap meanwhile.

#include <stddef.h>
#include <stdint.h>

enum threading {
    THREADS_NONE,   // no other thread runs in this process: one pass, no barrier
    THREADS_OTHERS, // threads may be anywhere
};

// Code that is written over other code. Bit i of `starts`: an instruction begins or began i bytes
// in; one does at the first byte at any rate. 0 or -ENOMEM.
#define EDIT_MOST 15
int edits_add(uintptr_t address, const void *bytes, size_t count, uint8_t starts);

// Code that nothing leads to yet, written by the next edits_flush() at the latest. `room`: bytes
// from there on that belong to it. 0 or -errno.
int edits_write_later(uintptr_t address, const void *bytes, size_t count, size_t room);
int edits_flush(void);

// The same at once. All is written through one descriptor, until edits_drop() closes it.
int edits_write_now(uintptr_t address, const void *bytes, size_t count);

// Writes all that was added; edits_drop() forgets it. 0 or -errno; -EAGAIN: among threads, while
// they are held (traps.h).
int edits_commit(enum threading threading);
void edits_drop(void);

#endif
