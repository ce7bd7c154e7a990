// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_EVENTS_COUNTER_CHECK_H
#define CAIRN_CMD_EVENTS_COUNTER_CHECK_H

// Whether a counter can be had here. Nothing is guessed: it is opened, and closed again.

#include "live/live.h"

// Opens it as the agent will. If the user may not watch the kernel, it leaves out what happens
// there (counter->exclude_kernel), unless that is all there is. Counters of the processor are made
// as precise as it can. 0 or -errno.
int counter_try(struct live_counter *counter);

// It happens in the kernel alone.
int counter_is_in_kernel(const struct live_counter *counter);

// Why one cannot be had, and what to do, for -errno of counter_try(): "no hardware counters; use -e
// cpu".
struct counter_refusal {
    char reason[256];
    char remedy[256]; // "": nothing helps
};
void counter_refused(const struct live_counter *counter, int error,
                     struct counter_refusal *refusal);

#endif
