// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_EVENTS_RESTRICTION_H
#define CAIRN_CMD_EVENTS_RESTRICTION_H

// Why the kernel does not give an event its best source, and what to type about it.

#include "live/live.h"
#include <stdbool.h>
#include <stddef.h>

struct restriction {
    char reason[256]; // a clause: "kernel.perf_event_paranoid is 3, and cpu needs 2 or less"
    char remedy[256]; // a command, or what else to do; "" if nothing helps
};

// Of perf events that interrupt at once (LIVE_SOURCE_SIGTRAP). False if there is none: they work.
bool restriction_of(enum live_event event, struct restriction *restriction);

// The same of what perf_event_open() has said, about an event that without CAP_PERFMON needs a
// kernel.perf_event_paranoid of that or less.
void restriction_of_error(int error, long needed, struct restriction *restriction);

// A number in a file of /proc/sys or /proc; `missing` if it cannot be read.
long read_setting(const char *path, long missing);

#endif
