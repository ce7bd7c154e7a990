// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_H
#define CAIRN_AGENT_THREAD_H

// The threads of the program: each has a clock, a walker and a tree.

#include "agent/agent.h"
#include "event/clock.h"
#include "track/calls.h"
#include "track/trigger.h"
#include "track/walk.h"

struct thread {
    struct walker walker;
    struct calls_thread *calls;     // with the calls tracker, instead of the walker
    struct trigger_thread *trigger; // with samples at every N-th call
    struct thread_clock clock;
    struct live_thread *record;
    // The event's clock at the last sample. May lie before its beginning (see pending in live.h),
    // so differences are what counts.
    uint64_t last;
    uint64_t last_wall; // the time of day at the last tick
    uint32_t guesses;   // how often in a row the CPU clock was not asked
    uint64_t
        not_before;  // the next sample is taken after this, if the handler is too slow for its rate
    ref_t last_node; // what the last sample was charged to
    uint32_t hidden; // signals of ours that the program believes to have blocked: see signals.c
    uint32_t ending; // rounds of thread-specific destructors seen
    void *(*start)(void *);
    void *argument;
    size_t stack_bytes;
    struct thread *next; // in the pool of unused ones
};

// The calling thread; NULL if it is not profiled. Read in the signal handler.
extern __thread struct thread *thread_current;

// Once, in the main thread. What it did before (loading libraries) is charged to the root: its
// clock began at `began`. 0 or -errno.
int thread_start_main(uint64_t began);

// The clock of the calling thread up to which its cost is charged; 0 if it is not profiled.
uint64_t thread_charged(void);

// Begins to profile the calling thread, whose stack it is; its clock runs when this returns. If
// that fails, the thread runs on unprofiled. A call of its own, so that thread_entry() can end in a
// jump.
void thread_enter(struct thread *thread, struct unwind_bounds stack);

// Records of threads: thread_pool.c. NULL: no memory.
struct thread *thread_take(void);
void thread_give(struct thread *thread);
void thread_pool_after_fork(void);

// In a forked child: the threads of the parent do not exist; the calling one begins anew.
void thread_after_fork(void);

// Around exec, where a tick would find no handler any more.
void thread_pause_clock(void);
void thread_resume_clock(void);

// The process ends: charges what the calling thread, and threads that have ended, had since their
// last samples.
void thread_settle_all(void);

#endif
