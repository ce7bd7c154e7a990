// SPDX-License-Identifier: MIT
// One sample: what a tick costs and where it is charged. Runs in the signal handler.

#include "agent/signals.h"
#include "agent/thread.h"

#define PREEMPTED_NS 16000 // a handler of this length was perhaps not on the CPU all the time

// How long the handler took. The clock that costs little counts other programs' time too.
static uint64_t handler_time(uint64_t begin, uint64_t cpu_begin)
{
    uint64_t spent = clock_now(LIVE_EVENT_WALL) - begin;
    if (spent < PREEMPTED_NS || !cpu_begin)
        return spent;
    uint64_t on_cpu = clock_now(LIVE_EVENT_CPU) - cpu_begin;
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

void sample_tick(void *ucontext)
{
    struct thread *thread = thread_current;
    const struct live_options *options = &agent.session->options;
    if (!thread || options->empty_handler)
        return;
    const uint64_t begin = clock_now(LIVE_EVENT_WALL);
    const uint64_t now = options->event == LIVE_EVENT_WALL ? begin : clock_now(options->event);
    const uint64_t weight = now - thread->last;
    // A thread that is switched often would be sampled often: waiting is sampled once a period,
    // like all else.
    if (options->event == LIVE_EVENT_WALL && weight < options->period_ns / 2)
        return;
    if (now < thread->not_before)
        return;
    thread->last = now;
    // Relaxed: the tool opens and closes the recording at some moment, no other data depends on it.
    if (!atomic_load_explicit(&agent.session->recording, memory_order_relaxed))
        return;
    clock_resume(&thread->clock, options);
    struct live_stats *stats = &thread->record->stats;
    ref_t node = thread->calls ? calls_sample(thread->calls, ucontext)
                               : walk_sample(&thread->walker, ucontext);
    if (!node) {
        thread->last -= weight; // at a bad moment: the next sample carries its weight
        stats->lost++;
        return;
    }
    tree_add(&agent.arena, node, 0, weight);
    thread->last_node = node;
    stats->samples++;
    stats->cost_ns += weight;
    count_handler(thread, begin, options->event == LIVE_EVENT_CPU ? now : 0);
}
