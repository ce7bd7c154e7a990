// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_EVENTS_ALLOC_H
#define CAIRN_AGENT_INTERPOSE_EVENTS_ALLOC_H

// The alloc event: blocks of a program, counted where they are allocated.
//
//   malloc() ─► the program's own allocator ─► alloc_note():  context ─► node: bytes, blocks
//                                                             table: address ─► size, birth,
//                                                                       node
//   free()   ─► alloc_take(), alloc_freed():  table ─► node: blocks freed ─► the allocator
//
// A freed block counts where it was allocated, so what is live at the end is a difference. So is
// the sum of the births of live bytes, which tells their age.
//
// At the peak, by context, without ever taking stock of the heap: the process has a stamp that
// changes with each new peak. A node that is about to change for the first time since the last peak
// keeps what was live in it, with that stamp. When all is over, a node with the stamp of the last
// peak has saved what it had then, and all others have it still. Exact with one thread; with
// several, up to the blocks that are allocated or freed at that very moment.
//
// Where blocks are sampled (-e alloc:BYTES), the others have no place in the table, and no context
// is looked for. A filter tells free() that a block was not sampled, by its address.
//
// The functions that the program calls are in malloc.c, which is in libcairn-alloc.so alone: with
// other events nothing stands between a program and its allocator.

#include "agent/interpose/interposed.h"
#include "agent/thread/counted.h"
#include "event/blocks.h"
#include "event/byte_sampler.h"
#include <stddef.h>

// The table of blocks has this part of the memory for call paths.
#define ALLOC_PART 2

struct block_taken {
    struct block_facts facts;
    uint32_t recording; // agent.recording
    bool known;
    bool temporary; // its thread has allocated nothing since
};

// Once, when the main thread is known; in a child of fork; and for each recording of an agent that
// comes late. 0 or -errno.
int alloc_start(void);

// Publishes how much memory the table has taken so far.
void alloc_count_memory(void);

// The program was given a block, by a function of ours that has this frame pointer: the rest of
// alloc_given().
void alloc_note(const void *block, size_t size, const void *frame);
void alloc_note_sampled(const void *block, size_t size, const void *frame);

extern __thread struct byte_sampler alloc_sampler __attribute__((visibility("hidden")));

// Where blocks are counted.
static inline void alloc_given(enum counted_mode mode, const void *block, size_t size,
                               const void *frame)
{
    if (LIKELY(mode != COUNTED_SAMPLED))
        alloc_note(block, size, frame);
    else if (!byte_sampler_skips(&alloc_sampler, size))
        alloc_note_sampled(block, size, frame);
}

// How many sampled blocks have an address of this hash; 255: very many, for good. Any thread
// changes it. A child of fork finds it zeroed.
#define ALLOC_FILTER_BITS 16
extern uint8_t *alloc_filter __attribute__((visibility("hidden")));

static inline uint8_t *alloc_filter_of(const void *block)
{
    return &alloc_filter[(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >>
                         (64 - ALLOC_FILTER_BITS)];
}

// Whether a block may have been counted. Relaxed: the program itself has brought the block to the
// thread that frees it.
static inline bool alloc_may_know(enum counted_mode mode, const void *block)
{
    return LIKELY(mode != COUNTED_SAMPLED) ||
           __atomic_load_n(alloc_filter_of(block), __ATOMIC_RELAXED);
}

// The program has mapped memory, or unmapped some, by a function of ours that has this frame
// pointer. Keeps errno.
void alloc_note_mapping(uint64_t mapped, uint64_t unmapped, const void *frame);

// map_calls.c: tells trackers of the functions that are interposed. Before it is on.
void alloc_tell_trackers_of_maps(void);
struct interposed_group alloc_map_functions(void);

// malloc.c: the functions that are interposed, and whether those that the program calls are among
// them. Before it is on.
#define ALLOC_FUNCTIONS 10
extern const char *const alloc_names[ALLOC_FUNCTIONS];
unsigned alloc_functions(uintptr_t *functions, unsigned most);      // in the order of their names
unsigned alloc_real_functions(uintptr_t *functions, unsigned most); // that they call
bool alloc_reaches_us(void);
// For an agent that comes late: the program's own functions are these. False: it lacks some.
bool alloc_work_by(void *(*find)(const char *name));
// The allocator brings an operator new of its own, which need not call malloc().
bool alloc_misses_new(void);

// It is about to give one back. The block that was taken out can be put back, if the allocator
// refuses, or be counted as freed.
struct block_taken alloc_take(const void *block, const void *frame);
void alloc_put_back(const void *block, struct block_taken taken, const void *frame);
void alloc_freed(struct block_taken taken, const void *frame);

#endif
