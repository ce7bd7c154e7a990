// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_SNAPSHOT_CONTEXTS_H
#define CAIRN_AGENT_API_SNAPSHOT_CONTEXTS_H

#include "live/live.h"

// Copies what it takes to decode the contexts that the program asked for. 0 or -ENOMEM.
int api_copy_contexts(struct arena *to, struct live_contexts *contexts);

#endif
