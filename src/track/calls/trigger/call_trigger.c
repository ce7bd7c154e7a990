// SPDX-License-Identifier: MIT
#include "track/calls/trigger/call_trigger.h"
#include "base/now.h"
#include "patch/entries/entries.h"
#include <time.h>

#define DECAY_NS 100000000 // the counters of functions are halved this often

__thread struct trigger_thread *trigger_current;

_Static_assert(offsetof(struct trigger_thread, stack) == 16 &&
                   offsetof(struct trigger_thread, functions) == 48,
               "trigger_x86_64.S relies on the layout");

// In call_trigger_x86_64.S and calls_x86_64.S.
void trigger_enter(void);
void calls_vector_start(void);

int64_t trigger_start(void)
{
    uint64_t skipped = 0;
    calls_vector_start();
    int64_t found = entries_find(trigger_enter, &skipped);
    int error = found > 0 ? entries_switch(true, true) : 0;
    return error ? error : found;
}

// A period of the same mean; evenly spread from 1 on, if it is randomised.
static uint64_t next_period(struct trigger_thread *trigger)
{
    if (!trigger->random)
        return trigger->period;
    trigger->random ^= trigger->random << 13;
    trigger->random ^= trigger->random >> 7;
    trigger->random ^= trigger->random << 17;
    return 1 + trigger->random % (2 * trigger->period - 1);
}

void trigger_open(struct trigger_thread *trigger, struct walker *walker,
                  const struct trigger_options *options)
{
    hook_stack_open(&trigger->stack, trigger->stack_memory, options->thread, options->stack);
    trigger->walker = walker;
    trigger->period = options->period;
    trigger->weights = options->weights;
    trigger->beside = options->beside;
    trigger->threshold = options->by_function ? (int64_t)options->period : 0;
    trigger->decayed = now_ns(CLOCK_MONOTONIC_COARSE);
    trigger->random = options->randomised ? (uintptr_t)trigger | 1 : 0;
    trigger->left = (int64_t)next_period(trigger);
}

// Rounds up, so that a period of one call fires at every call.
static int64_t halved(int64_t count, unsigned halvings)
{
    return halvings > 31 ? count > 0 : (count + ((int64_t)1 << halvings) - 1) >> halvings;
}

// Halves all counters for each DECAY_NS that has passed since the last time. Counters are looked at
// only when one of them would fire: until then nobody sees that they are late.
static unsigned decay(struct trigger_thread *trigger)
{
    const uint64_t periods = (now_ns(CLOCK_MONOTONIC_COARSE) - trigger->decayed) / DECAY_NS;
    const unsigned halvings = periods < 32 ? (unsigned)periods : 32;
    trigger->decayed += periods * DECAY_NS;
    for (size_t i = 0; halvings && i < TRIGGER_FUNCTIONS; i++)
        trigger->functions[i] = (int32_t)halved(trigger->functions[i], halvings);
    return halvings;
}

// The counter of the function that back lies in has reached the threshold, which decay may undo.
static bool function_fires(struct trigger_thread *trigger, uintptr_t back)
{
    int32_t *counter = &trigger->functions[(uint32_t)back / 16 % TRIGGER_FUNCTIONS];
    const int64_t before = *counter + 1;
    const int64_t count = halved(before, decay(trigger));
    const bool fires = count >= trigger->threshold;
    // A random period is how far the counter is from the threshold.
    *counter = (int32_t)(fires ? trigger->threshold - (int64_t)next_period(trigger) : count);
    return fires;
}

// The hook's counter has run out. All registers are saved; back lies in the function that was
// entered, slot holds its return address.
__attribute__((visibility("hidden"))) void
trigger_fire(struct trigger_thread *trigger, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    if (!trigger->threshold)
        trigger->left = (int64_t)next_period(trigger);
    else if (!function_fires(trigger, back))
        return;
    // A handler of the program that interrupts a sample may call, and fire, too.
    if (trigger->firing) {
        trigger->walker->stats->lost++;
        return;
    }
    trigger->firing = true;
    // A tick that comes now leaves the walker alone.
    atomic_signal_fence(memory_order_seq_cst);
    const struct caller_registers entered = {.pc = back, .sp = (uintptr_t)slot, .bp = bp};
    walk_call(trigger->walker, &entered, trigger->period, trigger->weights);
    trigger->walker->stats->samples += !trigger->beside;
    atomic_signal_fence(memory_order_seq_cst);
    trigger->firing = false;
}
