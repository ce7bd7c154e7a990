// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_DL_INTERPOSE_H
#define CAIRN_AGENT_INTERPOSE_DL_INTERPOSE_H

// Answers to unwinders that are not ours; see dl_interpose.c.

#include <stdbool.h>

// True for an address in the agent's own code.
bool dl_interpose_is_ours(const void *address);

#endif
