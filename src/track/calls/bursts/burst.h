// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_BURSTS_BURST_H
#define CAIRN_TRACK_CALLS_BURSTS_BURST_H

// Bursts: calls are followed for a short while out of each interval. Between bursts, entries of
// functions that are called often are no-ops, and others pass by their relays.
//
//   |■■|................|■■|................|■■|.....        ■ length, |..| interval
//
// Each entry that is switched takes some microseconds of an interval, and each call that passes one
// nanosecond. The cheaper way is found on the fly: about every thousandth of the calls that pass
// reaches the hook, and an entry that does so several times in an interval is switched from then
// on.
//
// Time is the CPU time of a thread, by its clock. A thread that has run for an interval without a
// burst begins one, for all. So it is a matter of what the program does, and not of what else the
// machine has to do. Chance makes intervals a little longer or shorter, or bursts might keep step
// with what the program does again and again. Each thread then takes part at its own pace
// (burst_pace.h). The weight of its calls makes up for those that are not followed, so counts are
// estimates of how often the program called. The burst is over when the thread that has begun it is
// through.
//
// The first call that a thread follows walks its stack, which puts the cursor where the thread is.
// Adaptive bursts (Zhuang and others) skip most of those that would begin in a known context. Such
// a burst is taken with a probability, and its counts are multiplied by the inverse, so that sums
// stay right.

#include "track/calls/calls.h"

struct burst_options {
    uint64_t interval_ns, length_ns;
    uint32_t one_in; // 0: static. Else: a burst in a context that was seen is taken one time out of
                     // this many
};

// Bursts, of entries that are found from now on. In normal context, before calls_start().
void burst_start(const struct burst_options *options);

// A thread begins, after others in the same tree which were owed so much; 0: it is the first. When
// its clock is to tick first. The first burst comes at random: as if bursts had been running for
// ever, and the program had begun somewhere between two of them. So the first milliseconds of the
// program are seen as often, and count for as much, as any others. If they counted only for the
// time that has passed, they would come out too low.
uint64_t burst_open(struct calls_thread *calls, uint64_t owed_ns);

// The CPU time of the calling thread that its calls do not stand for yet, and 1: never 0.
uint64_t burst_owed(const struct calls_thread *calls);

// One burst instead, whose begin and end the caller decides: in it or not, at the start and at each
// tick. Functions with -finstrument-functions ask whether they count.
void burst_start_window(bool open);
void burst_tick_window(struct calls_thread *calls, const void *ucontext, bool open);
bool burst_is_closed(void);

// While code is being rewritten in normal context, no burst may begin or end and rewrite it, too.
// False: not held.
bool burst_hold(void);
void burst_release(void);

// In the child: a thread that is not here may have had the turn, or have begun a burst.
void burst_after_fork(void);

// A tick of the calling thread's clock: begins or ends a burst if it is time. When it is to tick
// again. Signal-safe.
uint64_t burst_tick(struct calls_thread *calls, const void *ucontext);

// A call that a hook has to look into. True if no burst is running: then the call does not count,
// but shows which functions are busy. Its hook returns to `back`.
bool burst_rests(struct calls_thread *calls, uintptr_t back);

// A call that a hook has to look into, without vector registers. True if it only ends a lap of
// calls that pass. Signal-safe.
bool burst_passes(struct calls_thread *calls);

// A call that a hook has to look into, of a thread that has not followed calls before it in this
// burst. True if it does now. Signal-safe.
bool burst_meets(struct calls_thread *calls);

// The cursor of that call is found.
void burst_follows(struct calls_thread *calls);

#endif
