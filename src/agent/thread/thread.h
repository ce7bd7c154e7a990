// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_THREAD_H
#define CAIRN_AGENT_THREAD_THREAD_H

// The threads of the program: each has a clock, a tracker's state and a tree.

#include "agent/session/agent.h"
#include "agent/thread/timeline.h"
#include "event/clock.h"
#include "event/counter.h"
#include "event/cpu_guess.h"
#include "event/switches.h"
#include "track/context_id/context_id.h"
#include "track/tracker.h"
#include <pthread.h>

#define THREAD_PHASES 16 // that may be within each other

struct thread {
    struct tracked tracked;
    struct thread_clock clock;
    struct counters counters;
    struct switches switches;
    struct live_thread *record;
    // The event's clock at the last sample. May lie before its beginning (see pending in live.h),
    // so differences are what counts.
    uint64_t last;
    uint64_t moment;        // CLOCK_MONOTONIC at the sample that it takes, or took last
    struct cpu_guess guess; // of that clock, where it is the CPU's
    uint64_t wall;          // up to where wall time is charged, if it is recorded beside CPU time
    uint64_t
        not_before; // the next sample is taken after this, if the handler is too slow for its rate
    uint64_t tracer_ns; // when it looks for a tracer again
    ref_t last_node;    // the node of the last sample
    uint32_t due;       // a tick has come while a block was being counted: sample_late()
    uint32_t asked;     // where it waits, and has closed its clock: no tick is on its way to it
    uint32_t recording; // agent.recording when it was known
    uint32_t hidden;    // signals of ours that the program believes to have blocked: see signals.c
    pid_t masked_child; // of vfork, that has its mask for real: its parent's beliefs hold no longer
    _Atomic uint32_t last_ticks; // by hand, that it has taken: its own handler counts
    uint32_t dispatched;         // its system calls become signals: see seccomp.c
    uint32_t ending;             // rounds of thread-specific destructors seen
    void *(*start)(void *);
    void *argument;
    size_t stack_bytes;
    uint32_t creator; // the call that created it (track/context_id/thread_creation.h)
    pid_t id;
    struct unwind_bounds stack;
    struct unwind_bounds signal_stack; // stays with the record: signal_stack.c
    // It has a tree and a tracker. The thread that begins it writes, last and with release; its own
    // handler reads.
    _Atomic uint32_t begun;
    uint64_t begun_ns; // when it was
    // Its clock stands because the recording is paused. Its own handler sets it; the thread that
    // clears it may open the clock again.
    _Atomic uint32_t idle;
    // The phases that it has begun (phase.h), innermost last; deeper ones are only counted.
    uint32_t phase_depth;
    uint16_t phases[THREAD_PHASES];
    // Of the tree that it has; PHASE_UNSURE: it must be looked at again. Relaxed: the owner writes
    // it, and a thread that names this one, after the name.
    _Atomic uint16_t record_phase;
    uint64_t record_samples;      // that the tree had before it
    char name[THREAD_NAME_BYTES]; // that the program gave it; empty: none
    pthread_t handle;             // its name for the program
    struct thread *newer, *older; // among those that are alive: thread_list.c
    struct thread *next;          // in the pool of unused ones
    // A handler of ours is at work in it. Sequentially consistent, with agent.left.
    _Atomic uint32_t sampling;
    // Events that it is at, one within the other, where the recording may end: counted.c.
    _Atomic uint32_t events;
};

// The calling thread; NULL if we do not know it.
extern __thread struct thread *thread_self;

// The calling thread; NULL if it is not profiled. Read in the signal handler.
extern __thread struct thread *thread_current;

// Once, in the thread that loads us: from here on threads are known. 0 or -errno.
int thread_arm(void);
// The same without that thread, which is met as all others are. Each time.
int thread_arm_attached(void);

// Begins to profile that thread at once. Its time before (loading libraries) is charged to the
// root: its clock began at `began`. 0 or -errno.
int thread_start_main(uint64_t began);

// For a tick that finds no thread_current: the calling thread, if another one has begun it, or if
// it is to make itself known (existing_threads.h). Signal-safe.
struct thread *thread_adopt(const void *ucontext);

// It has a longer period than was asked for, because it is switched often. Signal-safe.
static inline bool thread_is_sparse(const struct thread *thread)
{
    return thread->clock.period > agent.session->options.period_ns;
}

// Whether threads have clocks in a recording with these options.
bool thread_needs_clock(const struct live_options *options);

// Counts how often the calling thread was switched, while its clock is one that costs something
// then. `now` is the event's clock. Signal-safe.
struct switches_since thread_count_switches(struct thread *thread, uint64_t now);

// Once in a while, at a sample: gives the thread the period that suits it. Signal-safe.
void thread_review_clock(struct thread *thread, uint64_t now);

// For a tick while the recording is paused: no more of them until thread_wake(). Signal-safe.
void thread_rest(struct thread *thread);

// The clock of the calling thread up to which its cost is charged; 0 if it is not profiled.
uint64_t thread_charged(void);

// Makes the calling thread known, whose stack it is, and if there is a recording begins to profile
// it; its clock runs when this returns. If that fails, the thread runs on unprofiled. A call of its
// own, so that thread_entry() can end in a jump.
void thread_enter(struct thread *thread, struct unwind_bounds stack);

// The calling thread ends: it is neither known nor profiled any more.
void thread_end(struct thread *thread);

// How that is noticed: thread_end.c. The start, once, 0 or -errno; then each thread for itself.
int thread_end_start(void);
void thread_end_expect(struct thread *thread);

// False: a new thread must go through thread_end_after(), which calls its entry.
bool thread_end_is_noticed(void);
void *thread_end_after(void *(*entry)(void *), void *argument);

// Records of threads: thread_pool.c. NULL: no memory.
struct thread *thread_take(void);
void thread_give(struct thread *thread);
void thread_pool_after_fork(void);

// The list of those that are alive. Adding returns whether the new one must begin by itself.
bool thread_list_add(struct thread *thread);
void thread_list_remove(struct thread *thread);
void thread_list_after_fork(void);

// The program has named a thread: the calling one, or one that may not have begun yet. Not
// signal-safe, but for the calling one.
void thread_set_name(struct thread *thread, const char *name);
void thread_list_set_name(pthread_t handle, const char *name);

// Those that are alive, in normal context: the one of this number; what is to be done with each;
// and whose thread is gone goes.
struct thread *thread_list_find(pid_t id);
void thread_list_each(void (*visit)(struct thread *thread));
void thread_list_forget_dead(void);

// For threads that were there before the agent (existing_threads.h), by another thread: as it was
// taken, but for its place in the list; its clock; and the end of that, and of the marker.
void thread_renew(struct thread *thread);
int thread_open_clock(struct thread *thread); // 0 or -errno
void thread_close_clock(struct thread *thread);
void thread_abandon(struct thread *thread);
// By itself: a tree and a tracker. Its time is charged from these clocks on. 0 or -errno.
// Signal-safe.
int thread_equip_late(struct thread *thread, uint64_t last, uint64_t wall);
// Time that no sample came for, of all threads but those that wait.
void thread_settle_living(void);
// That of the first thread of the process. Signal-safe.
struct unwind_bounds thread_main_stack(void);
// Neither ends of threads nor forks are noticed from now on.
void thread_end_stop(void);

// The recording begins, or continues after a pause, in all threads. In normal context.
void thread_list_begin_all(void);

// No more ticks in any thread but the calling one, and none of them in a handler. Not signal-safe.
void thread_list_stop_clocks(void);

// Ends profiling of the calling thread, and of threads that begin later; `everybody`: of all
// threads.
void thread_retire(bool everybody);

// The calling thread alone is not profiled any more, until thread_begin_late().
void thread_leave(void);
void thread_list_wake_all(void);

// The context of the calling thread, for a function of ours that this caller has called: the long
// way, if need be. Signal-safe.
struct context_id thread_context(const struct caller_registers *caller);

// The calling thread creates another one, by a function of ours that this caller has called: the
// number of that call.
uint32_t thread_creation(const struct caller_registers *caller);

// The steps for each thread, which may be another one than the caller.
void thread_begin_late(struct thread *thread);
void thread_wake(struct thread *thread);

// A tree for the thread, in the phase that it is in: one that an earlier thread with its start
// routine has left, or a new one. NULL: no memory. Signal-safe.
struct live_thread *thread_record(struct thread *thread);

// The tree of the calling thread; where threads are yet to make themselves known, that which the
// main thread will take. 0: no memory. In normal context.
ref_t thread_first_tree(void);

#define PHASE_UNSURE UINT16_MAX

// Whether the thread should have another tree by now: another phase, another name, or a purge.
// Signal-safe.
bool thread_is_misplaced(const struct thread *thread);

// Gives it that, with the walk tracker. In its own handler.
void thread_move(struct thread *thread);

// The same at once for the calling thread where calls are followed; nothing elsewhere, where the
// next sample does it. In normal context.
void thread_move_now(void);

// It ends, and no tick finds it any more: its cost counts under its name, if no other thread has
// had its tree.
void thread_name_record(struct thread *thread);

// Gives its tree back.
void thread_leave_record(struct thread *thread);

// Charges a cost that no sample came for to where the last sample was; to the root if there never
// was one.
void thread_settle(struct live_thread *record, ref_t node, uint64_t rest);

// The same for wall time beside CPU time, up to `when` (CLOCK_MONOTONIC); to an existing node.
void thread_charge_wall(struct live_thread *record, ref_t node, uint64_t rest, uint64_t when);

// A cost by the clock, at a time (CLOCK_MONOTONIC). Signal-safe; the owner of the tree alone.
static inline void thread_charge(struct live_thread *record, ref_t node, uint64_t weight,
                                 uint64_t when)
{
    const unsigned value = live_time_value(&agent.session->options);
    if (value)
        tree_add(&agent.arena, node, value, weight);
    else
        tree_charge(&agent.arena, record->tree, node, weight);
    timeline_note(record, node, 0, weight, when);
}

// The same of a counter.
static inline void thread_charge_count(struct live_thread *record, ref_t node, unsigned counter,
                                       uint64_t weight)
{
    const unsigned value = live_counter_value(&agent.session->options) + counter;
    if (value)
        tree_add(&agent.arena, node, value, weight);
    else
        tree_charge(&agent.arena, record->tree, node, weight);
}

// Opens the calling thread's counters again that were closed. Signal-safe.
void thread_reopen_counters(struct thread *thread);

// Charges what counters have counted since the last sample of the calling thread, to the node of that
// sample. In normal context.
void thread_settle_counters(struct thread *thread);

// The time that is not charged yet, now. A guess of the clock may have charged a little too much:
// then nothing.
uint64_t thread_unsettled(const struct thread *thread, uint64_t now);

// In a forked child: the threads of the parent do not exist; the calling one begins anew.
void thread_after_fork(void);

// A tick has come while a block was being counted: its time is charged where that was allocated,
// which is where the program was. In sampling/sample.c; in normal context, at the end of such an event. Node
// 0: there is none, the next sample has it.
void sample_late(struct thread *thread, ref_t node);

// The calling thread waits in a system call, and has been led here, with signals blocked: its last
// sample, and the end of its clock. In sampling/sample.c.
void sample_waiting(void *ucontext);

// Makes sure that the calling thread lets our signals in, and notes in thread->hidden what the
// program thinks. In interpose/signals.c.
void signals_open_thread(struct thread *thread);

// Around exec, where a tick would find no handler any more.
void thread_pause_clock(void);
void thread_resume_clock(void);

// The process ends: charges what the calling thread, and threads that have ended, had since their
// last samples.
void thread_settle_all(void);

#endif
