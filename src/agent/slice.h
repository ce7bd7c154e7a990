// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SLICE_H
#define CAIRN_AGENT_SLICE_H

// The session's memory, and the part of it that this process writes to: its slice. Each of these
// makes `agent` describe the slice that it takes. 0 or -errno; in normal context.

#include "base/system/agent_map.h"
#include "live/live.h"
#include <stdbool.h>

// Of the tool's session, which is mapped first. (agent_take_slice() is for children of fork.)
int slice_take_first(void);

// Of a session of the program's own, which no other process sees.
int slice_take_own(bool forked);

// A few pages until there is a recording, which takes over what is noted there.
int slice_take_waiting(void);

void slice_unmap(void *memory, size_t bytes, enum agent_map_kind kind);

// The end of an attached recording. The memory goes, and its addresses stay, since functions of ours
// may be at work; the next recording takes them.
void slice_let_go(struct live_process *process, size_t bytes);
void slice_keep_session_page(void);

#endif
