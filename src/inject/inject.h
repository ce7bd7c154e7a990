// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_INJECT_H
#define CAIRN_INJECT_INJECT_H

// Has a thread of another process load the agent, and call it.
//
// Threads that wait are asked first, for their time costs nobody anything; then those that run,
// until one of them is where the loader can be called. All threads but that one run on.

#include "inject/injection_target.h"

// The agent's answer, or INJECT_NOT_CALLED or INJECT_NOT_LOADED;
// target->why then says why.
enum { INJECT_NOT_CALLED = -10001, INJECT_NOT_LOADED = -10002 };

long inject_request(struct target *target, struct live_attach_request *request);

// Has that thread call the agent, with its registers in the request, if it waits in a system call.
// The agent must be there. The answer, or INJECT_NOT_CALLED.
long inject_waiting(struct target *target, pid_t tid, struct live_attach_request *request);

#endif
