// SPDX-License-Identifier: MIT
// Samples of counters, and of waits off the CPU: the kernel counts their weights, and no clock of
// ours ticks for them.

#include "agent/sampling/sample.h"
#include "base/likely.h"
#include "loadmap/loadmap.h"
#include "unwind/arch.h"
#include <string.h>

// The node of an event that no clock ticks for; 0: not now.
static ref_t find_node(struct thread *thread, void *ucontext, uint64_t weight)
{
    if (UNLIKELY(agent.session->options.also) &&
        (tracked_is_busy(&thread->tracked) || sample_is_at_an_event(thread, ucontext)))
        return 0;
    if (UNLIKELY(thread_is_misplaced(thread)))
        thread_move(thread);
    const ref_t node = sample_locate(thread, ucontext, weight);
    if (UNLIKELY(!node))
        thread->record->stats.lost++;
    return node;
}

// Such an event has been charged. If the recording has a clock, samples and what they cost are the
// clock's.
static void finish(struct thread *thread, ref_t node, enum live_event event, uint64_t begin)
{
    struct live_stats *stats = &thread->record->stats;
    thread->last_node = thread->record->last_node = node;
    if (agent.session->options.event != event)
        return;
    const uint64_t spent = sample_handler_time(begin, 0);
    stats->samples++;
    stats->handler_ns += spent;
    stats->handler_histogram[live_bucket(spent)]++;
}

// ---- counters

// Signals of several counters that overflow together are one.
void sample_charge_counters(struct thread *thread, ref_t node)
{
    for (unsigned i = 0; i < thread->counters.count; i++) {
        const uint64_t weight = counter_news(&thread->counters, i);
        counter_take(&thread->counters, i);
        if (!weight || !node)
            continue;
        thread_charge_count(thread->record, node, i, weight);
        if (agent.session->options.event == LIVE_EVENT_COUNTER && i == 0)
            thread->record->stats.cost_ns += weight;
    }
}

// The next tick carries the weight of one that is not taken.
void sample_take_counter(struct thread *thread, void *ucontext, unsigned counter)
{
    const struct live_options *options = &agent.session->options;
    const uint64_t begin = clock_now(LIVE_EVENT_WALL);
    if (UNLIKELY(options->empty_handler) || sample_is_left_to_tracer(thread, begin))
        return;
    // Hooks on calls are none of the program's code.
    if (UNLIKELY(!agent_is_recording()) || UNLIKELY(tracker_is_hook(ucontext))) {
        sample_charge_counters(thread, 0);
        return;
    }
    unwind_expect(ucontext);
    // Trees that rank contexts have one event alone.
    const uint64_t weight = counter_news(&thread->counters, counter);
    if (!weight && options->counter_count == 1)
        return;
    const ref_t node = find_node(thread, ucontext, weight);
    if (UNLIKELY(!node))
        return;
    sample_charge_counters(thread, node);
    finish(thread, node, LIVE_EVENT_COUNTER, begin);
}

// ---- waits

static void charge_offcpu(struct thread *thread, ref_t node)
{
    const struct live_options *options = &agent.session->options;
    uint64_t *pending = thread->counters.offcpu.pending;
    const unsigned value = live_offcpu_value(options);
    const uint64_t ns = pending[LIVE_OFFCPU_NS];
    const bool is_main = options->event == LIVE_EVENT_OFFCPU;
    for (unsigned i = 0; i < LIVE_OFFCPU_VALUES; i++) {
        if (tree_traits_of(options->tree)->keeps_all)
            tree_add(&agent.arena, node, value + i, pending[i]);
        pending[i] = 0;
    }
    if (!tree_traits_of(options->tree)->keeps_all)
        tree_charge(&agent.arena, thread->record->tree, node, ns);
    thread->record->stats.cost_ns += is_main ? ns : 0;
}

// The system call that the thread comes back from.
static long interrupted_call(const void *ucontext)
{
    const uintptr_t pc =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_RA));
    struct module_ref module;
    const bool known = loadmap_peek(pc, &module) && pc >= module.code_start && pc < module.code_end;
    return arch_system_call(ucontext, known ? pc - module.code_start : pc % 4096);
}

// Waits that are over, however short: those that together are too short for a sample are charged with
// the next one. The last tick of a thread takes all.
void sample_take_offcpu(struct thread *thread, void *ucontext, enum tick tick)
{
    const struct live_options *options = &agent.session->options;
    struct offcpu *offcpu = &thread->counters.offcpu;
    const uint64_t begin = clock_now(LIVE_EVENT_WALL);
    const bool may_be_call = arch_may_be_in_system_call(ucontext);
    offcpu_read(offcpu, may_be_call ? interrupted_call(ucontext) : ARCH_CALL_NONE);
    const uint64_t ns = offcpu->pending[LIVE_OFFCPU_NS];
    if (UNLIKELY(!agent_is_recording())) {
        memset(offcpu->pending, 0, sizeof offcpu->pending);
        return;
    }
    if (!ns || (ns < options->period_ns / 2 && tick != TICK_WAIT) || tracker_is_hook(ucontext) ||
        sample_is_left_to_tracer(thread, begin))
        return;
    const ref_t node = find_node(thread, ucontext, ns);
    if (UNLIKELY(!node))
        return;
    charge_offcpu(thread, node);
    finish(thread, node, LIVE_EVENT_OFFCPU, begin);
}

// ---- the end of a thread

// Where what is left of a thread's events is charged: at its last sample, else without a place.
static ref_t last_place(const struct thread *thread)
{
    const ref_t tree = thread->record->tree;
    return thread->last_node ? thread->last_node
                             : tree_unplaced(&agent.arena, tree, tree_root(&agent.arena, tree));
}

// Waits that were too short for a sample.
static void settle_offcpu(struct thread *thread)
{
    if (!thread->counters.has_offcpu || !thread->record || !thread->counters.offcpu.pending[0])
        return;
    struct calls_thread *held = tracked_hold();
    charge_offcpu(thread, last_place(thread));
    tracked_release(held);
}

void thread_settle_counters(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    struct live_thread *record = thread->record;
    settle_offcpu(thread);
    for (unsigned i = 0; i < thread->counters.count && record; i++) {
        const uint64_t rest = counter_rest(&thread->counters, i, options);
        if (!rest || !agent_is_recording())
            continue;
        struct calls_thread *held = tracked_hold();
        thread_charge_count(record, last_place(thread), i, rest);
        tracked_release(held);
        record->stats.cost_ns += options->event == LIVE_EVENT_COUNTER && i == 0 ? rest : 0;
    }
}
