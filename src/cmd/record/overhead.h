// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_OVERHEAD_H
#define CAIRN_CMD_RECORD_OVERHEAD_H

// The cost of sampling on this machine beside the agent's own work: the interrupt and the signal of
// a tick, and the cost that a perf event adds to a context switch. The agent cannot see either.
// Nothing is taken from a table: both are measured, in a process of their own, in some ten
// milliseconds.

#include "live/live.h"
#include "profile/profile.h"

// For perf events that raise SIGTRAP. All 0: they do not work here.
struct profile_overhead measure_overhead(enum live_event event, uint64_t period_ns);

#endif
