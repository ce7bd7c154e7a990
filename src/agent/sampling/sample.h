// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SAMPLING_SAMPLE_H
#define CAIRN_AGENT_SAMPLING_SAMPLE_H

// Between sample.c, which takes the samples of a thread's clock, and counter_samples.c, which takes
// those of the other events that the kernel counts. All of it is signal-safe.

#include "agent/interpose/signals.h"
#include "agent/thread/thread.h"

// sample.c

// The node of the interrupted code; 0: not now.
ref_t sample_locate(struct thread *thread, void *ucontext, uint64_t weight);

// The program counts an event itself at the moment.
bool sample_is_at_an_event(const struct thread *thread, const void *ucontext);

// How long a handler took that began then, by the clocks of wall and CPU time (0: not known).
uint64_t sample_handler_time(uint64_t begin, uint64_t cpu_begin);

// A thread that is traced gets no more ticks, unless it is the agent that is being examined. Looks
// now and then.
bool sample_leave_to_tracer(struct thread *thread, uint64_t now);

static inline bool sample_is_left_to_tracer(struct thread *thread, uint64_t now)
{
    return __builtin_expect(now >= thread->tracer_ns, 0) && sample_leave_to_tracer(thread, now);
}

// counter_samples.c

// Charges what counters have counted since their last samples, to a node (0: to none).
void sample_charge_counters(struct thread *thread, ref_t node);

// A tick of a counter.
void sample_take_counter(struct thread *thread, void *ucontext, unsigned counter);

// Waits that are over.
void sample_take_offcpu(struct thread *thread, void *ucontext, enum tick tick);

#endif
