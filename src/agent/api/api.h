// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_API_H
#define CAIRN_AGENT_API_API_H

// The functions of include/cairn.h, as libcairn.so shows them. A new version of one gets a new
// number, and the old one stays.

#include "agent/session/agent.h"
#include <cairn.h>

#define API __attribute__((visibility("default")))

// In a forked child: a lock that another thread of the parent held is free.
void api_after_fork(void);
void api_context_after_fork(void); // part of it

#endif
