// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_PHASE_H
#define CAIRN_AGENT_THREAD_PHASE_H

// Phases: spans that the program names. The samples of a thread go to the tree of the phase that it
// is in: the innermost span of its own, else that of the whole process, else none.
//
// Entering a phase is a store. The thread changes to the other tree at its next sample, in the
// handler; where calls are followed, at once, as nothing interrupts it.

#include "agent/thread/thread.h"

typedef uint32_t phase_t; // number of a name; 0: no phase

// Where this process has the name: a struct live_phase, made on first use. 0: none. Signal-safe.
ref_t phase_record(phase_t phase);

// The process has another slice: names must be written anew.
void phase_forget_records(void);

// The phase that the thread is in by now. Signal-safe.
phase_t phase_of(const struct thread *thread);

#endif
