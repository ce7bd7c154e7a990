// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_SEEN_UNWINDERS_H
#define CAIRN_TRACK_WALK_SEEN_UNWINDERS_H

// The program's unwinders as the process has seen them, and whether markers may be placed. Some ask
// for tables once, and remember them (libunwind). Where such a one is loaded, or has asked for all
// tables (dl_iterate_phdr()), no marker is placed any more.

#include <stdbool.h>

// The program has an unwinder that remembers tables, or may: it looks at stacks without a question.
// Markers of other threads go with their next sample. Signal-safe.
void program_unwinder_expect_memory(void);
bool program_unwinder_has_memory(void);

// The same for an unknown unwinder that asks.
void program_unwinder_forbid_markers(void);
bool program_unwinder_forbids_markers(void);

// `note` is called once, when markers are forbidden, in a signal handler, too. Before the first
// module is found.
void program_unwinder_start(void (*note)(void));

#endif
