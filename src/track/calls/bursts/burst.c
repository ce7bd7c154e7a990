// SPDX-License-Identifier: MIT
#include "track/calls/bursts/burst.h"
#include "base/lock.h"
#include "base/now.h"
#include "base/system/kernel.h"
#include "base/system/signal_mask.h"
#include "patch/entries/entries.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORTEST_NS 10000  // to a tick: the kernel can do no shorter
#define LATE_TICKS 8       // of others, until they end the burst of a thread that sleeps
#define PASSING_CALLS 1024 // between bursts, about: then one reaches the hook
#define OFTEN 3            // to be met so, in an interval or two
#define SUSPECT_SHIFT 26   // of a hash, to a number of one
#define TRIALS 5
#define TRIAL_CALLS 4096
#define TRIAL_TURNS 8

static struct burst_options bursts;
static struct pace_options paces;

// The cells that relays count down in bursts (burst_pace.h), and between them.
struct relay_cells {
    int64_t burst, rest;
};
__attribute__((visibility("hidden"), aligned(16))) __thread struct relay_cells burst_cells;

// The thread that takes the turn may begin or end a burst; others go on. All but the lock goes with
// it.
static struct {
    struct lock turn;
    _Atomic bool running;             // relaxed: a thread that sees it late is one call late
    const struct calls_thread *owner; // its tick began the burst
    uint64_t random_state;
    // Changed by who has the turn; anyone compares. Relaxed: a thread that sees it late joins late.
    _Atomic uint32_t number;
} bursting = {.random_state = UINT64_C(0x9e3779b97f4a7c15)};

static uint64_t next_random(void)
{
    bursting.random_state ^= bursting.random_state << 13;
    bursting.random_state ^= bursting.random_state >> 7;
    bursting.random_state ^= bursting.random_state << 17;
    return bursting.random_state;
}

static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

static uint64_t time_of(clockid_t clock)
{
    struct timespec now;
    now_read(clock, &now);
    return nanoseconds(&now);
}

// As many ticks as there would be of the counter; at the change from that, one lap is wrong.
static uint64_t ticks_by_kernel(void)
{
    struct timespec now;
    if (!paces.tick_ps || kernel_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0))
        return 0;
    return nanoseconds(&now) * 1024 / paces.tick_ps * 1000;
}

static uint64_t burst_clock(void)
{
    return now_has_no_counter ? ticks_by_kernel() : __builtin_ia32_rdtsc();
}

static uint64_t cpu_time(void)
{
    return time_of(CLOCK_THREAD_CPUTIME_ID);
}

bool burst_hold(void)
{
    return !lock_take(&bursting.turn);
}

void burst_release(void)
{
    lock_release(&bursting.turn);
}

// The program's handlers may call, and ticks come, and some leave by a jump: not now.
static void block_signals(bool block, uint64_t *mask)
{
    static const uint64_t all = UINT64_MAX;
    signal_mask_change(SIG_SETMASK, block ? &all : mask, block ? mask : NULL);
}

// In burst_x86_64.S: so many calls, by a relay's code and without it.
void burst_turn_enter(void);
void burst_try_relays(uint64_t calls);
void burst_try_nothing(uint64_t calls);

// Does most of what hooks do to change a thread's state, for a measurement.
static void try_turning(uint64_t count)
{
    for (uint64_t mask; count > 0; count--) {
        block_signals(true, &mask);
        cpu_time();
        block_signals(false, &mask);
    }
}

static uint64_t shortest(void (*trial)(uint64_t), uint64_t count)
{
    uint64_t best = UINT64_MAX;
    for (unsigned i = 0; i < TRIALS; i++) {
        const uint64_t begin = time_of(CLOCK_MONOTONIC);
        trial(count);
        const uint64_t spent = time_of(CLOCK_MONOTONIC) - begin;
        best = spent < best ? spent : best;
    }
    return best;
}

// The time that a counting relay adds to a call.
static uint64_t passing_ps(void)
{
    burst_cells.burst = PACE_PASS;
    const uint64_t with = shortest(burst_try_relays, TRIAL_CALLS),
                   without = shortest(burst_try_nothing, TRIAL_CALLS);
    burst_cells.burst = PACE_ARMED;
    return with > without ? (with - without) * 1000 / TRIAL_CALLS : 0;
}

void burst_start(const struct burst_options *options)
{
    const uint64_t ticks = burst_clock(), begin = time_of(CLOCK_MONOTONIC);
    bursts = *options;
    calls_in_bursts = true;
    paces = (struct pace_options){.interval_ns = bursts.interval_ns,
                                  .length_ns = bursts.length_ns,
                                  .passing_ps = passing_ps(),
                                  .turning_ns = shortest(try_turning, TRIAL_TURNS) / TRIAL_TURNS};
    const uint64_t end = time_of(CLOCK_MONOTONIC);
    paces.tick_ps = (end - begin) * 1024 * 1000 / (burst_clock() - ticks + 1) + 1;
    bursting.random_state ^= end << 20;
    for (unsigned i = 0; i < 8; i++) // until all bits depend on the seed
        next_random();
    const char *const here = __builtin_thread_pointer();
    entries_pace((int32_t)((const char *)&burst_cells - here), burst_turn_enter);
}

// From one burst to the next, by chance: an interval, and up to a quarter more or less.
static uint64_t next_interval(void)
{
    return bursts.interval_ns - bursts.interval_ns / 4 + next_random() % (bursts.interval_ns / 2);
}

uint64_t burst_open(struct calls_thread *calls, uint64_t owed_ns)
{
    const bool held = burst_hold();
    const uint64_t interval = next_interval(),
                   owed = owed_ns ? owed_ns : 1 + next_random() % interval;
    if (held)
        burst_release();
    const uint64_t now = calls == calls_current ? cpu_time() : 0;
    pace_open(&calls->pace, interval, owed, now);
    const uint64_t wait = calls->pace.next - now;
    return wait > SHORTEST_NS ? wait : SHORTEST_NS;
}

uint64_t burst_owed(const struct calls_thread *calls)
{
    return bursts.interval_ns && calls ? 1 + pace_owed(&calls->pace, cpu_time()) : 0;
}

// How much a call of a burst that begins here counts for; 0: let this one pass.
static uint64_t factor_here(struct calls_thread *calls, const void *ucontext)
{
    if (!bursts.one_in)
        return 1;
    // A followed function counts its calls when a burst sees it called: one that has was seen.
    const struct node *cursor = calls_find_cursor(calls, ucontext);
    if (!cursor || !cursor->value[0])
        return 1;
    return next_random() % bursts.one_in ? 0 : bursts.one_in;
}

// When the thread's clock is to tick; 0: this one was let pass.
static uint64_t begin_burst(struct calls_thread *calls, const void *ucontext, uint64_t now)
{
    const uint64_t factor = factor_here(calls, ucontext);
    if (!factor) {
        pace_skip(&calls->pace, now);
        calls_lose_cursor(calls); // it is not followed
        return 0;
    }
    calls->pace.factor = factor;
    bursting.owner = calls;
    bursting.running = true;
    const uint32_t burst = 1 + atomic_fetch_add_explicit(&bursting.number, 1, memory_order_relaxed);
    calls_switch(true);
    const uint64_t then = cpu_time();
    calls->pace.lost += then - now; // our own work stands for nothing
    return pace_begin(&calls->pace, &paces, burst, then, &burst_cells.burst);
}

static void end_burst(void)
{
    bursting.running = false;
    calls_switch(false);
}

void burst_after_fork(void)
{
    bursting.owner = NULL;
    burst_cells.burst = PACE_PASS;
    lock_break(&bursting.turn);
}

// In a burst: when the thread's clock is to tick again. 0: the burst is over.
static uint64_t go_on(struct calls_thread *calls, uint64_t now)
{
    struct pace *pace = &calls->pace;
    const uint32_t current = atomic_load_explicit(&bursting.number, memory_order_relaxed);
    if (calls->burst_seen != current) {
        calls->burst_seen = current;
        calls->burst_ticks = 0;
    }
    const bool mine = calls == bursting.owner, late = ++calls->burst_ticks > LATE_TICKS;
    const uint64_t wait =
        pace->burst == current ? pace_tick(pace, &paces, now, &burst_cells.burst) : 0;
    calls->amount = pace->amount;
    if (!bursting.owner || (mine && !wait) || late)
        return 0;
    return wait ? wait : bursts.length_ns;
}

// No burst is running. When the thread's clock is to tick again.
static uint64_t rest(struct calls_thread *calls, const void *ucontext, uint64_t now)
{
    struct pace *pace = &calls->pace;
    pace_rest(pace, now, &burst_cells.burst);
    pace->factor = 1;
    // Another thread's burst has done for it, too.
    const uint64_t soonest = pace->accounted + bursts.interval_ns / 2;
    if (pace->burst != pace->begun && pace->next < soonest)
        pace->next = soonest;
    if (now + SHORTEST_NS < pace->next)
        return pace->next - now;
    pace->next = now + next_interval();
    const uint64_t wait = begin_burst(calls, ucontext, now);
    return wait ? wait : pace->next - now;
}

uint64_t burst_tick(struct calls_thread *calls, const void *ucontext)
{
    if (!lock_try(&bursting.turn))
        return bursts.length_ns;
    const uint64_t now = cpu_time();
    uint64_t wait = 0;
    if (bursting.running && !(wait = go_on(calls, now)))
        end_burst();
    if (!bursting.running)
        wait = rest(calls, ucontext, now);
    burst_release();
    return wait > SHORTEST_NS ? wait : SHORTEST_NS;
}

void burst_follows(struct calls_thread *calls)
{
    pace_follow(&calls->pace, cpu_time());
}

// The thread is through with its part: if it has begun the burst, that ends.
static void leave_burst(const struct calls_thread *calls)
{
    if (!lock_try(&bursting.turn))
        return; // the next tick will see to it
    if (bursting.running && bursting.owner == calls)
        end_burst();
    burst_release();
}

// Of calls that pass, by chance: programs have rhythms.
static int64_t calls_to_pass(void)
{
    static _Atomic uint32_t state = 1; // relaxed: any number will do
    const uint32_t next = atomic_load_explicit(&state, memory_order_relaxed) * UINT32_C(1664525) +
                          UINT32_C(1013904223);
    atomic_store_explicit(&state, next, memory_order_relaxed);
    return PASSING_CALLS / 2 + (next >> 16) % PASSING_CALLS;
}

static void quieten(uintptr_t back)
{
    uint64_t mask = 0;
    block_signals(true, &mask);
    if (lock_try(&bursting.turn)) {
        if (!bursting.running)
            calls_quieten(back);
        burst_release();
    }
    block_signals(false, &mask);
}

bool burst_rests(struct calls_thread *calls, uintptr_t back)
{
    if (atomic_load_explicit(&bursting.running, memory_order_relaxed))
        return false;
    burst_cells.rest = calls_to_pass();
    // A handler that comes in between is met in our place, at worst.
    struct suspect *suspect =
        &calls->suspects[(uint32_t)back * UINT32_C(2654435769) >> SUSPECT_SHIFT];
    const uint32_t last = atomic_load_explicit(&bursting.number, memory_order_relaxed);
    if (suspect->back != (uint32_t)back || last - suspect->burst > 1)
        *suspect = (struct suspect){.back = (uint32_t)back, .burst = last};
    if (++suspect->times >= OFTEN) {
        suspect->times = 0;
        quieten(back);
    }
    return true;
}

bool burst_passes(struct calls_thread *calls)
{
    const struct pace *pace = &calls->pace;
    return (pace->state == PACE_PASSING || pace->state == PACE_LEADING) &&
           atomic_load_explicit(&bursting.running, memory_order_relaxed) &&
           pace->burst == atomic_load_explicit(&bursting.number, memory_order_relaxed) &&
           pace_lap(&calls->pace, burst_clock(), &burst_cells.burst);
}

bool burst_meets(struct calls_thread *calls)
{
    uint64_t mask = 0;
    block_signals(true, &mask);
    const bool follows = pace_meet(&calls->pace, &paces,
                                   atomic_load_explicit(&bursting.number, memory_order_relaxed),
                                   cpu_time(), &burst_cells.burst);
    calls->amount = calls->pace.amount;
    if (calls->pace.state == PACE_RESTING)
        leave_burst(calls);
    block_signals(false, &mask);
    return follows;
}

// A slice of calls is used up; burst_cells says whether the present call is followed. The caller
// has saved all registers.
__attribute__((visibility("hidden"))) void burst_turn(struct calls_thread *calls)
{
    burst_cells.burst = PACE_PASS;
    uint64_t mask = 0;
    block_signals(true, &mask);
    if (!pace_turn(&calls->pace, &paces, cpu_time(), &burst_cells.burst))
        calls_lose_cursor(calls);
    if (calls->pace.state == PACE_RESTING)
        leave_burst(calls);
    block_signals(false, &mask);
}

// One burst

enum window { NO_WINDOW, WINDOW_CLOSED, WINDOW_OPEN };

// Written with the turn taken, read anywhere: a call at the edge may count or not.
static _Atomic int window;

static enum window current_window(void)
{
    return (enum window)atomic_load_explicit(&window, memory_order_relaxed);
}

static void set_window(bool open)
{
    atomic_store_explicit(&window, open ? WINDOW_OPEN : WINDOW_CLOSED, memory_order_relaxed);
}

bool burst_is_closed(void)
{
    return current_window() == WINDOW_CLOSED;
}

void burst_start_window(bool open)
{
    if (!burst_hold())
        return;
    set_window(open);
    if (!open)
        calls_switch(false);
    burst_release();
}

void burst_tick_window(struct calls_thread *calls, const void *ucontext, bool open)
{
    if (!lock_try(&bursting.turn))
        return;
    // The clock runs before the first entries are written.
    if (current_window() != NO_WINDOW && open != (current_window() == WINDOW_OPEN)) {
        set_window(open);
        calls_switch(open);
        // Functions with -finstrument-functions report all the time, so the active ones are known.
        if (open && !calls->active->told)
            calls_find_cursor(calls, ucontext);
    }
    burst_release();
}
