// SPDX-License-Identifier: MIT
// One sample: what a tick costs and where it is charged. Runs in the signal handler.

#include "agent/signals.h"
#include "agent/thread.h"
#include "agent/watch.h"
#include "track/burst.h"
#include "track/encode.h"

#define PREEMPTED_NS 16000 // a handler of this length was perhaps not on the CPU all the time
#define GUESSES 15         // in a row, of the CPU time since the last sample

// How long the handler took. The clock that costs little counts other programs' time too.
static uint64_t handler_time(uint64_t begin, uint64_t cpu_begin)
{
    uint64_t spent = clock_now(LIVE_EVENT_WALL) - begin;
    if (spent < PREEMPTED_NS || !cpu_begin)
        return spent;
    uint64_t now = clock_now(LIVE_EVENT_CPU), on_cpu = now > cpu_begin ? now - cpu_begin : 0;
    return on_cpu < spent ? on_cpu : spent;
}

static void count_handler(struct thread *thread, uint64_t begin, uint64_t cpu_begin)
{
    struct live_stats *stats = &thread->record->stats;
    const uint64_t spent = handler_time(begin, cpu_begin);
    stats->handler_ns += spent;
    stats->handler_histogram[live_bucket(spent)]++;
    // A rate that cannot be kept (a deep stack, no marker) must not starve the program: half of the
    // time is its own.
    if (spent > agent.session->options.period_ns / 2)
        thread->not_before = thread->last + 2 * spent;
}

// The thread's CPU clock. Asking the kernel is the dearest thing a sample does, its path is never
// in the cache. If hardly more than a period has passed by the wall clock since the last tick, the
// thread was on the CPU all that time. Every so often it is asked all the same, so that errors do
// not add up.
static uint64_t cpu_clock(struct thread *thread, uint64_t wall)
{
    const uint64_t passed = wall - thread->last_wall, period = agent.session->options.period_ns;
    thread->last_wall = wall;
    if (passed < period + period / 64 && thread->guesses < GUESSES) {
        thread->guesses++;
        return thread->last + passed;
    }
    thread->guesses = 0;
    return clock_now(LIVE_EVENT_CPU);
}

static void take_sample(void *ucontext)
{
    struct thread *thread = thread_current;
    if (!thread)
        thread = thread_adopt();
    if (!thread)
        return;
    const struct live_options *options = &agent.session->options;
    if (options->empty_handler)
        return;
    unwind_expect(ucontext);
    const uint64_t begin = clock_now(LIVE_EVENT_WALL);
    if (options->calls_window)
        burst_tick_window(thread->calls, ucontext, agent_is_recording());
    if (options->event == LIVE_EVENT_CALLS) {
        if (options->burst_interval_ns)
            clock_set(&thread->clock, options, burst_tick(thread->calls, ucontext));
        else
            clock_resume(&thread->clock, options);
        return;
    }
    const bool wall = options->event == LIVE_EVENT_WALL;
    uint64_t now = wall ? begin : cpu_clock(thread, begin);
    if ((int64_t)(now - thread->last) < 0) // a guess was too high: what comes is charged already
        now = thread->last;
    const uint64_t weight = now - thread->last;
    // A thread that is switched often would be sampled often: waiting is sampled once a period,
    // like all else.
    if (wall && weight < options->period_ns / 2)
        return;
    if (now < thread->not_before)
        return;
    thread->last = now;
    if (!agent_is_recording()) {
        if (atomic_load_explicit(&agent.paused, memory_order_relaxed))
            thread_rest(thread);
        return;
    }
    clock_resume(&thread->clock, options);
    if (thread_is_misplaced(thread))
        thread_move(thread);
    struct live_stats *stats = &thread->record->stats;
    ref_t node = thread->calls ? calls_sample(thread->calls, ucontext)
                 : encode_current
                     ? encode_sample_aside(encode_current, &thread->walker, ucontext, weight)
                     : walk_sample(&thread->walker, ucontext, weight);
    if (!node) {
        thread->last -= weight; // at a bad moment: the next sample carries its weight
        stats->lost++;
        return;
    }
    if (watch_is_on())
        watch_sample(node, weight);
    tree_charge(&agent.arena, thread->record->tree, node, weight);
    thread->last_node = thread->record->last_node = node;
    thread->record->charged = now;
    stats->samples++;
    stats->cost_ns += weight;
    count_handler(thread, begin, wall ? 0 : now);
}

void sample_tick(void *ucontext)
{
    encode_in_handler++;
    atomic_signal_fence(memory_order_seq_cst);
    take_sample(ucontext);
    atomic_signal_fence(memory_order_seq_cst);
    encode_in_handler--;
}
