// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_OFFCPU_H
#define CAIRN_EVENT_OFFCPU_H

// The time that a thread is off the processor, and why.
//
//   ... runs ──► switched out ─────────────────► switched in ──► back in the program: SIGTRAP
//                     └─ record: when, preempted?     └─ record: when
//
// A thread that was preempted waits for the processor (the run queue). Else it has blocked, and the
// system call that it made says for what. All of it is signal-safe.

#include "event/mapped_event.h"
#include "live/live.h"

struct offcpu {
    struct mapped_event event;
    uint64_t out_ns;                      // since when it is off; 0: it is not
    bool was_preempted;                   // then
    uint64_t pending[LIVE_OFFCPU_VALUES]; // that no sample has charged yet
};

// Opens the event of a thread (0: the calling one). 0 or -errno.
int offcpu_open(struct offcpu *offcpu, pid_t thread);

// At a tick, in a place that is reached by that system call, or by none (-1: not known, -2: none):
// reads what the kernel has noted.
void offcpu_read(struct offcpu *offcpu, long system_call);

#endif
