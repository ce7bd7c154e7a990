// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_BURST_H
#define CAIRN_TRACK_BURST_H

// Bursts: calls are followed for a short while out of each interval. Between bursts the hooks turn
// back at once.
//
//   |■■|................|■■|................|■■|.....        ■ length, |..| interval
//
// Time is the CPU time of a thread, told by ticks of its clock, which are a burst's length apart:
// the thread that has run longest since the last burst begins the next one, and its next tick ends
// it. So it is a matter of what the program does, and not of what else the machine has to do.
//
// A burst begins with a walk that puts the cursor where the thread is. Adaptive bursts (Zhuang and
// others) skip most of those that would begin in a context that an earlier one has seen: such a
// burst is taken with a probability, and then what it counts is multiplied by the inverse, so that
// sums stay right.

#include "track/calls.h"

struct burst_options {
    uint64_t interval_ns, length_ns;
    uint32_t one_in; // 0: static. Else: a burst in a context that was seen is taken one time out of
                     // this many
};

// Bursts from now on, the first after a part of an interval, by chance. In normal context, after
// calls_start().
void burst_start(const struct burst_options *options);

// While code is being rewritten in normal context, no burst may begin or end and rewrite it, too.
void burst_hold(void);
void burst_release(void);

// A tick of the calling thread's clock: begins or ends a burst if it is time. Signal-safe.
void burst_tick(struct calls_thread *calls, const void *ucontext);

#endif
