// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_SAMPLING_COST_H
#define CAIRN_ANALYZE_SUMMARY_SAMPLING_COST_H

// The cost of sampling: the handlers, which the agent has timed, and the kernel's work for them,
// which is counted and multiplied by its cost on the machine of the recording. Starting and ending
// threads and processes is not in it.

#include "profile/profile.h"

struct sampling_cost {
    uint64_t handlers_ns;
    uint64_t ticks_ns;    // interrupts and signals
    uint64_t switches_ns; // what clocks add to context switches
    bool measured;        // false: the handlers are all that is known
};

struct sampling_cost sampling_cost(const struct profile_overhead *overhead, uint64_t handlers_ns,
                                   uint64_t ticks, uint64_t switches);
uint64_t sampling_cost_sum(const struct sampling_cost *cost);

// In words, as shares of the time that was sampled: "cost of sampling: about 4.1 % (handlers: 0.9
// %)"; or if the handlers are all that is known, "cost of the handlers: 0.9 %".
struct sampling_cost_text {
    char text[128];
};
struct sampling_cost_text sampling_cost_text(const struct sampling_cost *cost, uint64_t time_ns);

#endif
