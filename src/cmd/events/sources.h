// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_EVENTS_SOURCES_H
#define CAIRN_CMD_EVENTS_SOURCES_H

// Which ways to sample work here, for this user. Nothing is guessed: each is tried on this thread.

#include "live/live.h"
#include <stdbool.h>

// 0, -ENOTSUP if that event never comes from that source, or what the kernel says.
int try_source(enum live_event event, enum live_source source);

// Events as the agent opens them, for the calling thread: disabled. A descriptor, or -errno.
int open_task_clock(bool sigtrap, uint64_t period_ns);
int open_switches(void);
int open_kernel_chains(void); // a task clock with call chains of the kernel

// The source that the agent will use: the first that works, or LIVE_SOURCE_AUTO if none does.
enum live_source best_source(enum live_event event);

#endif
