// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_INJECTION_TARGET_H
#define CAIRN_INJECT_INJECTION_TARGET_H

// A running process that the agent is to be loaded into: what it is, and where the functions lie
// that this takes.

#include "live/attach.h"
#include <stdbool.h>
#include <sys/types.h>

struct target {
    pid_t pid;
    char agent_path[1024]; // of the agent that is loaded, or would be
    uint64_t dlopen;
    uint64_t create, prepare, set_detached, set_stack; // pthread_create(), pthread_attr_...(); 0
    uint64_t loader, loader_end;                       // the loader, with its locks
    uint64_t room;                                     // for a few instructions (room.h)
    uint64_t entry, state;                             // of the agent: so far from its begin
    uint64_t agent_base;                               // 0: it is not loaded yet
    char why[512];                                     // why it cannot be entered
    bool fits_outside;                                 // but it can be sampled from outside
};

// Looks at the process. The agent for it lies beside the one of this path, or is that one. False: it
// cannot be entered, and target->why says why.
bool target_examine(struct target *target, pid_t pid, const char *agent_path);

// Whether what the agent asks of the kernel might end this thread, or its process.
bool target_confines(pid_t pid, pid_t tid);

// The agent's state; false: it is not there, or another version of it is.
bool target_state(const struct target *target, struct live_attached *state);

#endif
