// SPDX-License-Identifier: MIT
// One sample: the weight of a tick of the clock, and the node that it is charged to. Runs in the signal handler.

#include "agent/sampling/sample.h"
#include "agent/interpose/signals.h"
#include "agent/sampling/watch.h"
#include "agent/session/system_call.h"
#include "agent/session/tracer.h"
#include "agent/thread/counted.h"
#include "agent/thread/thread.h"
#include "base/agent_code.h"
#include "base/likely.h"
#include "base/system/huge.h"
#include "event/ring.h"
#include "loadmap/loadmap.h"
#include "track/kernel_frames.h"
#include "unwind/arch.h"
#include <string.h>

#define PREEMPTED_NS 16000 // a handler of this length was perhaps not on the CPU all the time
#define MANY 8             // samples of a thread: there will be more
#define TREE_AHEAD (UINT64_C(256) << 10)

// The clock that costs little counts other programs' time too.
uint64_t sample_handler_time(uint64_t begin, uint64_t cpu_begin)
{
    uint64_t spent = clock_now(LIVE_EVENT_WALL) - begin;
    if (!UNLIKELY(spent >= PREEMPTED_NS && cpu_begin))
        return spent;
    uint64_t now = clock_now(LIVE_EVENT_CPU), on_cpu = now > cpu_begin ? now - cpu_begin : 0;
    return on_cpu < spent ? on_cpu : spent;
}

static void count_handler(struct thread *thread, uint64_t begin, uint64_t cpu_begin)
{
    struct live_stats *stats = &thread->record->stats;
    const uint64_t spent = sample_handler_time(begin, cpu_begin);
    stats->handler_ns += spent;
    stats->handler_histogram[live_bucket(spent)]++;
    // A rate that cannot be kept (a deep stack, no marker) must not starve the program: half of the
    // time is its own.
    if (UNLIKELY(spent > agent.session->options.period_ns / 2))
        thread->not_before = thread->last + 2 * spent;
}

static uint64_t cpu_clock(struct thread *thread, uint64_t wall, bool late)
{
    const int64_t passed = cpu_guess_passed(&thread->guess, wall, thread->clock.period, late,
                                            clock_ticks_by_cpu(&thread->clock));
    return passed == CPU_GUESS_ASK ? clock_now(LIVE_EVENT_CPU) : thread->last + (uint64_t)passed;
}

bool sample_is_at_an_event(const struct thread *thread, const void *ucontext)
{
    const uintptr_t sp =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
    return counted_is_at_an_event(thread, sp);
}

// The tree, or the tracker, is in the middle of a change that was interrupted.
static bool is_bad_moment(struct thread *thread, const void *ucontext)
{
    if (tracked_is_busy(&thread->tracked)) {
        thread->record->stats.lost++;
        return true;
    }
    thread->due =
        sample_is_at_an_event(thread, ucontext); // else this very sample takes what was due
    return thread->due;
}

ref_t sample_locate(struct thread *thread, void *ucontext, uint64_t weight)
{
    const ref_t node = tracker->locate(&thread->tracked, ucontext, weight);
    return UNLIKELY(arch_may_be_in_system_call(ucontext)) && node && agent.session->options.kernel
               ? kernel_frames_node(&agent.arena, thread->record->tree, node, ucontext)
               : node;
}

// Ticks that came while the kernel was at work for the program have one signal together, when it
// returns, and each has left where the kernel was: the weight is shared out among them. Returns the
// node of the last one, with its weight in *weight.
static ref_t charge_ticks(struct thread *thread, const void *ucontext, ref_t statement,
                          uint64_t *weight)
{
    void *page = clock_ring(&thread->clock);
    struct ring_sample sample;
    unsigned ticks = 0, in_kernel = 0;
    if (!page)
        return statement;
    struct ring ring = ring_begin(page);
    const struct ring first = ring;
    while (ring_next(&ring, &sample)) {
        const bool here = arch_was_interrupted_at(ucontext, sample.pc);
        ticks += here; // others came in our own code
        in_kernel += here && sample.count;
    }
    ref_t node = statement;
    for (ring = first; in_kernel && ticks && ring_next(&ring, &sample);) {
        if (!arch_was_interrupted_at(ucontext, sample.pc))
            continue;
        node = kernel_frames_below(&agent.arena, thread->record->tree, statement, sample.address,
                                   sample.count);
        if (--ticks == 0)
            break;
        const uint64_t part = *weight / (ticks + 1);
        thread_charge(thread->record, node, part, thread->moment);
        thread->record->stats.cost_ns += part;
        *weight -= part;
    }
    ring_finish(&first);
    return node;
}

static void charge(struct thread *thread, ref_t node, uint64_t now, uint64_t weight)
{
    struct live_stats *stats = &thread->record->stats;
    thread_charge(thread->record, node, weight, thread->moment);
    thread->last_node = thread->record->last_node = node;
    thread->record->charged = now;
    stats->samples++;
    stats->sparse += thread_is_sparse(thread);
    stats->cost_ns += weight;
}

// Charges wall time beside CPU time, up to `now`.
static void charge_wall(struct thread *thread, ref_t node, uint64_t now)
{
    thread_charge_wall(thread->record, node, now - thread->wall, now);
    thread->wall = now;
}

// The thread has waited: that is wall time alone. The CPU time since its last sample stays for the
// next one, or all of it would seem to be spent where programs wait.
static void take_wait(struct thread *thread, void *ucontext, uint64_t begin)
{
    if (begin - thread->wall < agent.session->options.period_ns / 2)
        return;
    if (!agent_is_recording()) {
        thread->wall = begin;
        return;
    }
    if (is_bad_moment(thread, ucontext))
        return;
    if (thread_is_misplaced(thread))
        thread_move(thread);
    const ref_t node = sample_locate(thread, ucontext, 0);
    if (!node) {
        thread->record->stats.lost++;
        return;
    }
    charge_wall(thread, node, begin);
    thread->last_node = thread->record->last_node = node;
    thread->record->stats.samples++;
    thread->record->stats.waits++;
    count_handler(thread, begin, 0);
}

void sample_late(struct thread *thread, ref_t node)
{
    thread->due = 0;
    if (!node) {
        thread->record->stats.lost++;
        return;
    }
    const uint64_t wall = clock_now(LIVE_EVENT_WALL);
    const bool by_wall = agent.session->options.event == LIVE_EVENT_WALL;
    uint64_t now = by_wall ? wall : clock_now(LIVE_EVENT_CPU);
    if ((int64_t)(now - thread->last) < 0)
        now = thread->last;
    const uint64_t weight = now - thread->last;
    thread->last = now;
    thread->moment = wall;
    thread->guess = (struct cpu_guess){.last_wall = wall, .was_late = 1};
    charge(thread, node, now, weight);
    charge_wall(thread, node, wall);
}

// A page that is not there yet takes as long as half a sample. Once is enough; a thread that comes
// at the same time does it again, which is harmless.
static void expect_many(void)
{
    static _Atomic bool done; // relaxed: nothing hangs on it
    if (atomic_load_explicit(&done, memory_order_relaxed))
        return;
    atomic_store_explicit(&done, true, memory_order_relaxed);
    unwind_expect_many();
    const struct arena *arena = &agent.arena;
    const uint64_t used = atomic_load_explicit(&arena_head(arena)->used, memory_order_relaxed);
    const uint64_t room = arena_room(arena);
    huge_fill((uintptr_t)arena->base + used, room < TREE_AHEAD ? room : TREE_AHEAD);
}

bool sample_leave_to_tracer(struct thread *thread, uint64_t now)
{
    const struct live_options *options = &agent.session->options;
    thread->tracer_ns =
        now + (live_has(options, LIVE_EVENT_WALL) ? TRACER_SOON_NS : TRACER_LATER_NS);
    if (agent_tool_is_gone() && !thread->tracked.walker.in_stub) {
        // Nobody wants these samples. The other threads see it, too, each by itself.
        thread_close_clock(thread);
        walk_abandon(&thread->tracked.walker);
        return true;
    }
    if (seccomp_holds || options->verify ||
        !tracer_is_present(agent.attached ? agent.session->tool_pid : 0))
        return false;
    thread_close_clock(thread);
    thread->last_node = thread->record->last_node = 0; // its place is not known from now on
    if (!agent.traced)
        agent_note("a debugger or tracer came to a process, whose threads were not sampled from "
                   "then on");
    agent.traced = true;
    return true;
}

// A hook was interrupted: its time since the last sample is in no node. The wall time before that,
// if the thread has waited, stays for the next sample.
static void take_hook(struct thread *thread, uint64_t now, uint64_t weight)
{
    struct live_stats *stats = &thread->record->stats;
    stats->hook_samples++;
    stats->hook_ns += weight;
    thread->record->charged = now;
    const uint64_t wall = thread->moment - thread->wall;
    thread->wall += weight < wall ? weight : wall;
}

static void take_sample(struct thread *thread, void *ucontext, enum tick tick)
{
    const struct live_options *options = &agent.session->options;
    if (UNLIKELY(options->empty_handler))
        return;
    const uint64_t begin = thread->moment = clock_now(LIVE_EVENT_WALL);
    if (sample_is_left_to_tracer(thread, begin))
        return;
    unwind_expect(ucontext);
    if (UNLIKELY(tracker->tick != NULL)) {
        const uint64_t next = tracker->tick(&thread->tracked, ucontext, agent_is_recording());
        if (options->event == LIVE_EVENT_CALLS) { // the clock is there for that alone
            if (next)
                clock_set(&thread->clock, options, next);
            else
                clock_resume(&thread->clock, options);
            return;
        }
    }
    if (UNLIKELY(tick == TICK_WAIT) && live_has_wall_beside(options)) {
        take_wait(thread, ucontext, begin);
        return;
    }
    if (UNLIKELY(options->also) && is_bad_moment(thread, ucontext)) {
        clock_resume(&thread->clock, options);
        return;
    }
    const bool wall = UNLIKELY(options->event == LIVE_EVENT_WALL);
    uint64_t now = wall ? begin : cpu_clock(thread, begin, arch_is_after_system_call(ucontext));
    now = cpu_guess_settle(&thread->guess, now, thread->last);
    const uint64_t weight = now - thread->last;
    // A thread that is switched often would be sampled often: waiting is sampled once a period,
    // like all else.
    if (wall && weight < options->period_ns / 2)
        return;
    if (UNLIKELY(now < thread->not_before)) {
        cpu_guess_ask_next(&thread->guess);
        return;
    }
    thread->last = now;
    if (UNLIKELY(!agent_is_recording())) {
        thread->wall = begin;
        if (atomic_load_explicit(&agent.paused, memory_order_relaxed))
            thread_rest(thread);
        return;
    }
    clock_resume(&thread->clock, options);
    if (UNLIKELY(thread_is_misplaced(thread)))
        thread_move(thread);
    if (UNLIKELY(thread->record->stats.samples == MANY))
        expect_many();
    if (UNLIKELY(tracker_is_hook(ucontext))) {
        take_hook(thread, now, weight);
        count_handler(thread, begin, wall ? 0 : now);
        return;
    }
    ref_t node = sample_locate(thread, ucontext, weight);
    if (UNLIKELY(!node)) {
        thread->last -= weight; // at a bad moment: the next sample carries its weight
        cpu_guess_ask_next(&thread->guess);
        thread->record->stats.lost++;
        return;
    }
    if (UNLIKELY(watch_is_on()))
        watch_sample(node, weight);
    uint64_t rest = weight;
    if (tick == TICK_PERIOD) // of the clock itself: it is there
        node = charge_ticks(thread, ucontext, node, &rest);
    charge(thread, node, now, rest);
    charge_wall(thread, node, begin);
    if (UNLIKELY(thread->counters.count))
        sample_charge_counters(thread, node);
    if (UNLIKELY(switches_are_due(&thread->switches)))
        thread_review_clock(thread, now);
    count_handler(thread, begin, wall ? 0 : now);
}

// Events that come together have one signal: whichever it is, all that have news are charged.
static void take(struct thread *thread, void *ucontext, enum tick tick)
{
    const struct live_options *options = &agent.session->options;
    if (UNLIKELY(thread->counters.has_offcpu) && !options->empty_handler)
        sample_take_offcpu(thread, ucontext, tick);
    if (LIKELY(tick <= TICK_WAIT))
        take_sample(thread, ucontext, tick);
    else if (tick == TICK_OFFCPU && live_has(options, LIVE_EVENT_WALL))
        take_sample(thread, ucontext, TICK_WAIT);
    if (UNLIKELY(thread->counters.count) && tick > TICK_WAIT)
        sample_take_counter(thread, ucontext, tick == TICK_OFFCPU ? 0 : tick - TICK_COUNTER);
}

void sample_tick(void *ucontext, enum tick tick)
{
    agent_code_begin();
    struct thread *thread = thread_current;
    // One of an earlier recording that it was left by is not begun. Relaxed: its own handler begins it.
    if (UNLIKELY(!thread || !atomic_load_explicit(&thread->begun, memory_order_relaxed)))
        thread = thread_adopt(ucontext);
    if (LIKELY(thread)) {
        // Sequentially consistent: a thread that ends the recording sees it, or is seen.
        atomic_store(&thread->sampling, 1);
        if (LIKELY(!atomic_load(&agent.left)))
            take(thread, ucontext, tick);
        atomic_store_explicit(&thread->sampling, 0, memory_order_release);
    }
    agent_code_end();
}

void sample_waiting(void *ucontext)
{
    sample_tick(ucontext, TICK_WAIT);
    if (!thread_self)
        return;
    clock_close(&thread_self->clock);
    thread_self->asked = 1;
}
