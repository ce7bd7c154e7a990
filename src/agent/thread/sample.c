// SPDX-License-Identifier: MIT
// One sample: the weight of a tick, and the node that it is charged to. Runs in the signal handler.

#include "agent/api/watch.h"
#include "agent/interpose/alloc.h"
#include "agent/interpose/signals.h"
#include "agent/interpose/syscall.h"
#include "agent/session/tracer.h"
#include "agent/thread/thread.h"
#include "base/agent_code.h"
#include "base/huge.h"
#include "base/likely.h"
#include "event/ring.h"
#include "track/kernel_frames.h"
#include "unwind/arch.h"

#define PREEMPTED_NS 16000 // a handler of this length was perhaps not on the CPU all the time
#define MANY 8             // samples of a thread: there will be more
#define TREE_AHEAD (UINT64_C(256) << 10)

// How long the handler took. The clock that costs little counts other programs' time too.
static uint64_t handler_time(uint64_t begin, uint64_t cpu_begin)
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
    const uint64_t spent = handler_time(begin, cpu_begin);
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

// The tree, or the tracker, is in the middle of a change that was interrupted.
static bool is_bad_moment(struct thread *thread, const void *ucontext)
{
    const uintptr_t sp =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
    if (tracked_is_busy(&thread->tracked)) {
        thread->record->stats.lost++;
        return true;
    }
    thread->due = alloc_is_noting(thread, sp); // else this very sample takes what was due
    return thread->due;
}

static ref_t find_node(struct thread *thread, void *ucontext, uint64_t weight)
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
        thread_charge(thread->record, node, part);
        thread->record->stats.cost_ns += part;
        *weight -= part;
    }
    ring_finish(&first);
    return node;
}

static void charge(struct thread *thread, ref_t node, uint64_t now, uint64_t weight)
{
    struct live_stats *stats = &thread->record->stats;
    thread_charge(thread->record, node, weight);
    thread->last_node = thread->record->last_node = node;
    thread->record->charged = now;
    stats->samples++;
    stats->sparse += thread_is_sparse(thread);
    stats->cost_ns += weight;
}

// Charges wall time beside CPU time, up to `now`.
static void charge_wall(struct thread *thread, ref_t node, uint64_t now)
{
    thread_charge_wall(thread->record, node, now - thread->wall);
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
    const ref_t node = find_node(thread, ucontext, 0);
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

// A thread that is traced gets no more ticks, unless it is the agent that is being examined.
static bool leave_to_tracer(struct thread *thread, uint64_t now)
{
    const struct live_options *options = &agent.session->options;
    thread->tracer_ns =
        now + (live_has(options, LIVE_EVENT_WALL) ? TRACER_SOON_NS : TRACER_LATER_NS);
    if (seccomp_holds || options->verify || !tracer_is_present())
        return false;
    clock_close(&thread->clock);
    thread->last_node = thread->record->last_node = 0; // its place is not known from now on
    if (!agent.traced)
        agent_note("a debugger or tracer came to a process, whose threads were not sampled from "
                   "then on");
    agent.traced = true;
    return true;
}

static void take_sample(void *ucontext, enum tick tick)
{
    struct thread *thread = thread_current;
    if (UNLIKELY(!thread) && !(thread = thread_adopt()))
        return;
    const struct live_options *options = &agent.session->options;
    if (UNLIKELY(options->empty_handler))
        return;
    const uint64_t begin = clock_now(LIVE_EVENT_WALL);
    if (UNLIKELY(begin >= thread->tracer_ns) && leave_to_tracer(thread, begin))
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
    ref_t node = find_node(thread, ucontext, weight);
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
    if (UNLIKELY(switches_are_due(&thread->switches)))
        thread_review_clock(thread, now);
    count_handler(thread, begin, wall ? 0 : now);
}

void sample_tick(void *ucontext, enum tick tick)
{
    agent_code_begin();
    take_sample(ucontext, tick);
    agent_code_end();
}
