// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_TRIGGER_CALL_TRIGGER_H
#define CAIRN_TRACK_CALLS_TRIGGER_CALL_TRIGGER_H

// Every N-th call takes a stack sample (ACCT): the same entries as the calls tracker's, but the
// hook only counts down, and the walk tracker finds the context. One counter per thread, or one per
// function (those decay: they are halved with time, so that functions that were busy long ago do
// not fire).

#include "track/calls/hook_stack.h"
#include "track/walk/walk.h"

#define TRIGGER_FUNCTIONS 4096

struct trigger_thread {
    // The hook's own: call_trigger_x86_64.S knows where these lie.
    int64_t left;            // 0: calls until the next sample, of one counter for all functions
    int64_t threshold;       // 8: of the counters of functions; 0: the one counter is used
    struct hook_stack stack; // 16
    int32_t functions[TRIGGER_FUNCTIONS]; // 48: counts by a hash of the function
    struct walker *walker;
    uint64_t period;
    uint64_t random;  // state; 0: the period is always the same
    uint64_t decayed; // when the counters were last halved
    enum walk_weights weights;
    bool firing;
    bool beside; // its samples are not those of the recording's clock
    unsigned char stack_memory[HOOK_STACK_BYTES];
};

extern __thread struct trigger_thread *trigger_current;

// Finds the instrumented functions and switches them on. The number of them, or -errno.
int64_t trigger_start(void);

struct trigger_options {
    uint64_t period;
    bool by_function, randomised, beside;
    enum walk_weights weights;
    pid_t thread;
    struct unwind_bounds stack; // of the thread
};

void trigger_open(struct trigger_thread *trigger, struct walker *walker,
                  const struct trigger_options *options);

#endif
