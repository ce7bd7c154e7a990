// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_AGENT_MAP_H
#define CAIRN_BASE_SYSTEM_AGENT_MAP_H

// Address space of the agent's for what may grow: pages that are never touched cost nothing. Unless
// the program asks for all of its memory to be there (mlockall): so it is known what is ours. A
// core file is about the program, and has none of it. Signal-safe.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_MAP_LARGE (256 << 10) // smaller ones are not worth a thought
#define AGENT_MAP_KNOWN 64          // more are not known, and are locked with the program's

struct agent_range {
    uintptr_t start, end;
};

// Set where madvise() would be the end of the program. Relaxed: a matter of one thread, or of all,
// before the program forbids it.
extern bool agent_map_without_advice __attribute__((visibility("hidden")));

// New mappings of the process are locked (MCL_FUTURE); not ours, from then on.
extern bool agent_map_locked __attribute__((visibility("hidden")));

// How much of it there is, by what a limit may be about.
enum agent_map_sum {
    AGENT_MAP_SPACE, // address space (RLIMIT_AS)
    AGENT_MAP_DATA,  // of that, private and writable (RLIMIT_DATA)
    AGENT_MAP_SUMS
};

// Any thread adds. Relaxed: readers want a number alone.
extern _Atomic uint64_t agent_map_sums[AGENT_MAP_SUMS] __attribute__((visibility("hidden")));

// Called when the sums have changed, and before what is new is mapped: limits of the process can
// make room for it. NULL: there are none.
extern void (*_Atomic agent_map_changed)(void) __attribute__((visibility("hidden")));

// An address for mmap() to take as a hint. The kernel puts what the program maps as high as it
// fits, into a hole that the program has just made above all, and the program may count on that
// hole. The agent's memory begins two terabytes below, where the program's would come last.
// Signal-safe.
void *agent_map_hint(size_t bytes);

enum agent_map_kind { AGENT_MAP_SHARED, AGENT_MAP_PRIVATE };

// For what is mapped otherwise than by agent_map(): before that, and after it is unmapped.
void agent_map_claim(size_t bytes, enum agent_map_kind kind);
void agent_map_release(size_t bytes, enum agent_map_kind kind);

// Zeroed. NULL: no memory.
void *agent_map(size_t bytes);
void agent_unmap(void *memory, size_t bytes);

// Keeps it out of core files.
void agent_map_hide(void *memory, size_t bytes);

// As agent_map() notes what it has mapped; for what was mapped otherwise, and stays.
void agent_map_note(void *memory, size_t bytes);

// Those there are, in any order; returns how many.
size_t agent_map_list(struct agent_range range[AGENT_MAP_KNOWN]);

#endif
