// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_API_H
#define CAIRN_AGENT_API_API_H

// Between the functions of include/cairn.h.

#include "agent/session/agent.h"
#include "agent/session/public.h"

// In a forked child: a lock that another thread of the parent held is free.
void api_after_fork(void);
// Parts of it.
void api_context_after_fork(void);
void api_watch_after_fork(void);

#endif
