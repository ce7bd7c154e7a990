// SPDX-License-Identifier: MIT
#include "track/burst.h"
#include <stdatomic.h>
#include <time.h>

#define MOST_PATIENCE 100000000 // looks: more than any switch takes

static struct burst_options bursts;

// Whoever takes the turn may begin or end a burst; others go on. Acquire and release: the fields
// below go with it.
static atomic_flag turn = ATOMIC_FLAG_INIT;
static bool running;
static uint64_t pause_ns;                // from the end of a burst to the next one
static uint32_t changes;                 // how often a burst has begun or ended
static const struct calls_thread *owner; // whose tick began the burst
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

void burst_hold(void)
{
    // Whoever has the turn is a handler on another thread, and will be done in a moment; or was, in
    // the parent of a process that nobody told us of.
    for (unsigned patience = MOST_PATIENCE; patience > 0; patience--)
        if (!atomic_flag_test_and_set_explicit(&turn, memory_order_acquire))
            return;
}

void burst_release(void)
{
    atomic_flag_clear_explicit(&turn, memory_order_release);
}

// What a program does first it does once. Were it always in a burst, it would count for as much as
// what lies between: chance says how long the first pause is, up to that of all others.
static uint64_t first_pause(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    random_state ^= (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec;
    for (unsigned i = 0; i < 8; i++) // until all bits depend on the seed
        next_random();
    return next_random() % (bursts.interval_ns / bursts.length_ns) * bursts.length_ns;
}

void burst_start(const struct burst_options *options)
{
    burst_hold();
    bursts = *options;
    pause_ns = first_pause();
    running = pause_ns == 0;
    if (!running)
        calls_switch(false);
    burst_release();
}

// How much a call of a burst that begins here counts for; 0: let this one pass.
static uint64_t amount_here(const struct node *cursor)
{
    // A followed function counts its calls when a burst sees it called: one that has was seen.
    if (!bursts.one_in || !cursor || !cursor->value[0])
        return 1;
    return next_random() % bursts.one_in ? 0 : bursts.one_in;
}

static void begin_burst(struct calls_thread *calls, const void *ucontext)
{
    uint64_t amount = amount_here(calls_find_cursor(calls, ucontext));
    if (!amount)
        return;
    calls->amount = amount;
    running = true;
    calls_switch(true);
    calls_find_cursor(calls,
                      ucontext); // the switch has declared all cursors stale, this one is not
}

// Ticks of the thread since the last burst began or ended; the first may be of a part only.
static uint64_t count_tick(struct calls_thread *calls)
{
    if (calls->burst_changes != changes)
        calls->burst_ticks = 0;
    calls->burst_changes = changes;
    return ++calls->burst_ticks;
}

static bool is_over(const struct calls_thread *calls, uint64_t ticks)
{
    return ticks > 1 || !owner || calls == owner;
}

void burst_tick(struct calls_thread *calls, const void *ucontext)
{
    if (atomic_flag_test_and_set_explicit(&turn, memory_order_acquire))
        return;
    if (!bursts.interval_ns) { // the clock runs before the first entries are written
        burst_release();
        return;
    }
    const uint64_t ticks = count_tick(calls);
    if (running && is_over(calls, ticks)) {
        running = false;
        pause_ns = bursts.interval_ns - bursts.length_ns;
        changes++;
        calls_switch(false);
    } else if (!running && ticks * bursts.length_ns + bursts.length_ns / 2 >= pause_ns) {
        changes++;
        owner = calls;
        begin_burst(calls, ucontext);
    }
    burst_release();
}
