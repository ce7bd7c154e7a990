// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_EVENT_STARTS_H
#define CAIRN_AGENT_SESSION_EVENT_STARTS_H

// What the agent does in a process to begin with each of the recording's events: once its threads
// are profiled, and again in a forked child. Those of a clock, and calls, begin with the threads.
// 0, or what the first one that cannot begin says.
int event_starts(void);

#endif
