// SPDX-License-Identifier: MIT
#include "track/calls/trigger/call_trigger.h"
#include "base/now.h"
#include "patch/entries/entries.h"
#include <time.h>

#define DECAY_NS 100000000 // the counters of functions are halved this often, if they fire at all

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
    trigger->threshold = options->by_function ? options->period : 0;
    trigger->random = options->randomised ? (uintptr_t)trigger | 1 : 0;
    trigger->left = (int64_t)next_period(trigger);
}

static void decay(struct trigger_thread *trigger)
{
    const uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);
    if (now - trigger->decayed < DECAY_NS)
        return;
    trigger->decayed = now;
    for (size_t i = 0; i < TRIGGER_FUNCTIONS; i++)
        trigger->functions[i] /= 2;
}

// The hook's counter has run out. All registers are saved; back lies in the function that was
// entered, slot holds its return address.
__attribute__((visibility("hidden"))) void
trigger_fire(struct trigger_thread *trigger, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    if (trigger->threshold)
        decay(trigger);
    else
        trigger->left = (int64_t)next_period(trigger);
    // A handler of the program that interrupts a sample may call, and fire, too.
    if (trigger->firing) {
        trigger->walker->stats->lost++;
        return;
    }
    trigger->firing = true;
    // A tick that comes now leaves the walker alone.
    atomic_signal_fence(memory_order_seq_cst);
    walk_call(trigger->walker, back, (uintptr_t)slot, bp, trigger->period, trigger->weights);
    trigger->walker->stats->samples += !trigger->beside;
    atomic_signal_fence(memory_order_seq_cst);
    trigger->firing = false;
}
