// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_COUNTED_H
#define CAIRN_AGENT_THREAD_COUNTED_H

// Events that the program causes itself, by calling a function that the agent interposes: each one
// is counted where it happens.
//
//   the program ─► interposed function ─► the real one
//                          └─► the tracker names the caller's context ─► node: values of the event
//
// While that is done, trees and trackers are in the middle of a change. A tick that comes meanwhile
// waits (sample_late()). An event of a signal handler that comes meanwhile has no context.

#include "agent/thread/thread.h"
#include "base/likely.h"
#include <sys/single_threaded.h>

// Which events are counted, here and now. Any thread reads it. It is in memory that a child
// of fork finds zeroed, so a child that the agent does not know of leaves its parent's trees alone.
enum counted_mode { COUNTED_OFF, COUNTED_ALL, COUNTED_SAMPLED };
extern const volatile uint32_t *counted_switches __attribute__((visibility("hidden")));

static inline enum counted_mode counted_mode(enum live_event event)
{
    return (enum counted_mode)counted_switches[event];
}

static inline bool counted_is_on(enum live_event event)
{
    return counted_mode(event) != COUNTED_OFF;
}

// Once, when the main thread is known and all that the event needs is there; and in a child of
// fork. 0 or -errno.
int counted_switch_on(enum live_event event, enum counted_mode mode);

// The recording may end while the program runs on (agent/attach/). Set before its first event, for
// good.
extern bool counted_may_end __attribute__((visibility("hidden")));

// The end: no event begins any more. Those that are under way are waited for (existing_threads.c).
void counted_switch_off(void);

// Around all that an event does with what belongs to the recording.
enum counted_visit {
    COUNTED_TOO_LATE,  // there is no such recording any more: nothing may be touched
    COUNTED_VISIT,     // of a thread that is known, if there is one
    COUNTED_ANNOUNCED, // the same, and its record says so
    COUNTED_STRANGER,  // of a thread without a record
};

enum counted_visit counted_announce(enum live_event event, const void *frame);
void counted_announce_end(enum counted_visit visit);

static inline enum counted_visit counted_enter(enum live_event event, const void *frame)
{
    return LIKELY(!counted_may_end) ? COUNTED_VISIT : counted_announce(event, frame);
}

static inline void counted_leave(enum counted_visit visit)
{
    if (UNLIKELY(visit > COUNTED_VISIT))
        counted_announce_end(visit);
}

// The calling thread; NULL if it has no record.
static inline struct thread *counted_thread(enum counted_visit visit)
{
    return LIKELY(visit != COUNTED_STRANGER) ? thread_current : NULL;
}

// Memory of the events', before a recording: zeroes again.
void counted_clear(void *memory, size_t bytes);

// The frame of the interposed function whose event the calling thread is at; 0: none.
extern __thread uintptr_t counted_frame __attribute__((visibility("hidden")));

// Whether a stack pointer is of what has interrupted that event, which is not over. Signal-safe.
bool counted_is_interrupted(const struct thread *thread, uintptr_t sp);

// Whether the calling thread is at such an event, where a signal has interrupted it, with the stack
// pointer there. Signal-safe.
static inline bool counted_is_at_an_event(const struct thread *thread, uintptr_t sp)
{
    return UNLIKELY(counted_frame != 0) && counted_is_interrupted(thread, sp);
}

// The statement of events without a context: the root's, in the first tree. Any thread adds to it.
extern ref_t counted_without_context __attribute__((visibility("hidden")));

// Memory of whole pages that a child of fork finds zeroed; NULL: none.
void *counted_map(size_t bytes);

// Where there is one thread, one instruction is enough against the handlers of its signals.
static inline void counted_add(uint64_t *value, uint64_t amount)
{
#ifdef __x86_64__
    if (LIKELY(__libc_single_threaded)) {
        __asm__ volatile("addq %1, %0" : "+m"(*value) : "er"(amount) : "cc", "memory");
        return;
    }
#endif
    // Relaxed: sums, that order nothing.
    __atomic_fetch_add(value, amount, __ATOMIC_RELAXED);
}

// The calling thread is at an event of the function with this frame, until counted_end(). False: it
// has no context.
static inline bool counted_begin(const struct thread *thread, const void *frame)
{
    if (UNLIKELY(!thread || counted_is_at_an_event(thread, (uintptr_t)frame)))
        return false;
    counted_frame = (uintptr_t)frame;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

static inline void counted_end(struct thread *thread, ref_t node)
{
    if (UNLIKELY(thread->due))
        sample_late(thread, node);
    atomic_signal_fence(memory_order_seq_cst);
    counted_frame = 0;
}

// Between the two: the node of the caller; 0: not known.
static inline ref_t counted_node(struct thread *thread, const struct caller_registers *caller,
                                 uint64_t cost)
{
    if (UNLIKELY(thread_is_misplaced(thread)))
        thread_move(thread);
    return tracker->locate_caller(&thread->tracked, caller, cost);
}

// The same. The recording's first event is what the tree's samples and cost are.
static inline ref_t counted_locate(struct thread *thread, const struct caller_registers *caller,
                                   enum live_event event, uint64_t cost)
{
    const ref_t node = counted_node(thread, caller, cost);
    if (agent.session->options.event == event) {
        struct live_stats *stats = &thread->record->stats;
        stats->samples++;
        stats->cost_ns += cost;
    }
    return node;
}

#endif
