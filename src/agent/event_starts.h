// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_EVENT_STARTS_H
#define CAIRN_AGENT_EVENT_STARTS_H

// Begins the recording's events in a process: once its threads are profiled, and again in a forked
// child. Those of a clock, and calls, begin with the threads. 0, or the error of the first one that
// cannot begin.
int event_starts(void);

#endif
