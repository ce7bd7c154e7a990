// SPDX-License-Identifier: MIT
// One sample: what a tick costs and where it is charged. Runs in the signal handler.

#include "agent/signals.h"
#include "agent/thread.h"

static void count_handler(struct live_stats *stats, uint64_t begin)
{
    uint64_t spent = clock_now(LIVE_EVENT_WALL) - begin;
    stats->handler_ns += spent;
    stats->handler_histogram[live_bucket(spent)]++;
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
    thread->last = now;
    // Relaxed: the tool opens and closes the recording at some moment, no other data depends on it.
    if (!atomic_load_explicit(&agent.session->recording, memory_order_relaxed))
        return;
    clock_resume(&thread->clock, options);
    struct live_stats *stats = &thread->record->stats;
    ref_t node = walk_sample(&thread->walker, ucontext);
    tree_add(&agent.arena, node, 0, weight);
    thread->last_node = node;
    stats->samples++;
    stats->cost_ns += weight;
    count_handler(stats, begin);
}
