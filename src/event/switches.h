// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_SWITCHES_H
#define CAIRN_EVENT_SWITCHES_H

// How often a thread is switched off and on a processor, and which period that calls for.
//
// A perf event has a timer of its own, which the kernel cancels and sets at each switch. In a
// virtual machine each of the two leaves the machine: a switch then costs as much as a sample. But
// the kernel need not set a timer if its own tick is due first, so a period of several ticks costs
// little. Threads that are switched many times in a period therefore have a longer one, for as long
// as they are. (Timers that the tick drives cost nothing at a switch, but where others wait for the
// processor, threads that run for a short time are off it when the tick comes.)
//
// All of it is of the calling thread, and signal-safe.

#include <stdbool.h>
#include <stdint.h>

enum {
    SWITCHES_MOST = 8,        // in a period: more would cost several times what samples do
    SWITCHES_TICKS = 4,       // of the kernel, that a longer period has
    SWITCHES_SPARSE_COST = 5, // switches with such a clock cost as much as one with another
    SWITCHES_FIRST = 2,       // samples until a thread is looked at
    SWITCHES_REVIEW = 16,     // and until it is looked at again,
    SWITCHES_SPARSE = 4,      // and if it has the longer period
};

struct switches {
    uint64_t count, cpu_ns; // when it was last looked at
    uint32_t samples_left;  // until it is looked at; 0: never
    bool is_new;            // its earlier switches are not known
};

// The longer period; the one that was asked for, if that is not shorter.
uint64_t switches_period(uint64_t period_ns);

// Begins to count. `cpu_ns`: the thread's CPU time. `own`: for the calling thread.
void switches_begin(struct switches *switches, uint64_t cpu_ns, bool own);

// True once in so many samples.
static inline bool switches_are_due(struct switches *switches)
{
    return switches->samples_left && --switches->samples_left == 0;
}

// The switches and the CPU time since the last call; takes a system call.
struct switches_since {
    uint64_t count, cpu_ns;
};
struct switches_since switches_take(struct switches *switches, uint64_t cpu_ns, bool sparse);

// Whether a thread is to have the longer period; `sparse`: it has it already.
bool switches_are_many(const struct switches_since *since, uint64_t period_ns, bool sparse);

#endif
