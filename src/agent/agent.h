// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_AGENT_H
#define CAIRN_AGENT_AGENT_H

// What makes libcairn.so: the session that it joined, and this process' part of the shared memory.

#include "live/live.h"
#include <stdbool.h>
#include <sys/types.h>

// An interposed function: the program finds ours before libc's.
#define INTERPOSED __attribute__((visibility("default")))

struct agent {
    bool active; // a session was joined: set once at start, before any thread of ours
    struct live_session *session;
    char session_path[256]; // for children to open
    struct arena arena;     // this process' slice
    struct live_process *process;
    size_t slice_mapped;
    pid_t pid; // tells a vfork child, which shares our memory, from ourselves
};

extern struct agent agent;

// Takes the next slice of the session for this process. 0 or -errno.
int agent_take_slice(bool forked);

// In a forked child: a slice of its own, and a fresh start of the calling thread.
void agent_after_fork(void);

// Says goodbye: the process ends in good order.
void agent_finish(void);

// Leaves a line for the user in the profile. Signal-safe.
void agent_note(const char *text);

// True in a child made by vfork: it runs in our memory, but is not us.
bool agent_in_vfork_child(void);

#endif
