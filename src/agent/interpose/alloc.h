// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_ALLOC_H
#define CAIRN_AGENT_INTERPOSE_ALLOC_H

// The alloc event: blocks of a program, counted where they are allocated.
//
//   malloc() ─► the program's own allocator ─► alloc_note():  context ─► node: bytes, blocks
//                                                             table: address ─► size, node
//   free()   ─► alloc_take(), alloc_freed():  table ─► node: blocks freed ─► the allocator
//
// A freed block counts where it was allocated, so what is live at the end is a difference.
//
// At the peak, by context, without ever taking stock of the heap: the process has a stamp that
// changes with each new peak. A node that is about to change for the first time since the last peak
// keeps what was live in it, with that stamp. When all is over, a node with the stamp of the last
// peak has saved what it had then, and all others have it still. Exact with one thread; with
// several, up to the blocks that are allocated or freed at that very moment.
//
// The functions that the program calls are in malloc.c, which is in libcairn-alloc.so alone: with
// other events nothing stands between a program and its allocator.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The table of blocks has this part of the memory for call paths.
#define ALLOC_PART 2

struct block_taken {
    uint64_t size;
    uint32_t node;
    bool known;
};

// 0: allocations are not followed, here and now. Any thread reads it. It is in memory that a child
// of fork finds zeroed, so a child that the agent does not know of leaves its parent's trees alone.
extern const volatile uint32_t *alloc_switch __attribute__((visibility("hidden")));

static inline bool alloc_is_on(void)
{
    return *alloc_switch != 0;
}

// Once, when the main thread is known; and in a child of fork. 0 or -errno.
int alloc_start(void);

// Publishes how much memory the table has taken so far.
void alloc_count_memory(void);

// The program was given a block, by a function of ours that has this frame pointer.
void alloc_note(const void *block, size_t size, const void *frame);

// Whether the calling thread is at such an event, where a signal has interrupted it, with the stack
// pointer there: trees and trackers are in the middle of a change. Signal-safe.
struct thread;
bool alloc_is_noting(const struct thread *thread, uintptr_t sp);

// malloc.c: the functions that are interposed, and whether those that the program calls are among
// them. Before it is on.
unsigned alloc_functions(uintptr_t *functions, unsigned most);
unsigned alloc_real_functions(uintptr_t *functions, unsigned most); // that they call
bool alloc_reaches_us(void);
// The allocator brings an operator new of its own, which need not call malloc().
bool alloc_misses_new(void);

// It is about to give one back. The block that was taken out can be put back, if the allocator
// refuses, or be counted as freed.
struct block_taken alloc_take(const void *block);
void alloc_put_back(const void *block, struct block_taken taken);
void alloc_freed(struct block_taken taken);

#endif
