// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_ATTACH_ATTACH_H
#define CAIRN_AGENT_ATTACH_ATTACH_H

// A recording that begins in a process that runs already, and leaves it again. docs/attach.md has
// the whole picture.
//
// The tool has one thread of the program call cairn_attach_1(). The other threads are not asked:
// each gets its clock from outside, and makes itself known in the handler of its first tick.

#include "agent/session/agent.h"

// Functions that modules import from libc: they call the agent's instead, and again libc's. The
// handle is the agent's own.
void imports_take(void *own_handle);
void imports_take_events(void); // and those that the recording's events take
void imports_give_back(void);

#endif
