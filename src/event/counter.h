// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_COUNTER_H
#define CAIRN_EVENT_COUNTER_H

// Counts of a thread, by the kernel or the processor: page faults, cycles, cache misses.
//
//   perf event ─► overflow after each period ─► record in the ring: the count at that moment
//                                           └─► SIGTRAP ─► handler: charges what was counted since
//
// A sample weighs what was really counted since the one before, not a period. So samples add up to
// the kernel's count, whatever ticks were lost. The rest after a thread's last sample is known from
// the event's page, or from the usage that the kernel keeps of a thread.

#include "event/mapped_event.h"
#include "event/offcpu.h"
#include "event/ring.h"
#include "live/live.h"
#include <signal.h>

struct counter {
    struct mapped_event event;
    struct ring_count newest, taken; // that the kernel has told; up to which it is charged
    uint64_t charged;                // since it was opened
    uint64_t usage;                  // that the kernel had counted by then: enum live_rest
};

struct counters {
    pid_t process;  // that has them: none that is forked from that does
    unsigned count; // 0: they are not open
    struct counter each[LIVE_COUNTERS];
    // The offcpu event has no count, but a life like theirs.
    struct offcpu offcpu;
    bool has_offcpu;
};

// Opens all of a thread (0: the calling one); they stand until counters_go(). 0 or -errno, and none
// is open. Signal-safe, as all of it.
int counters_open(struct counters *counters, pid_t thread, const struct live_options *options);
void counters_go(struct counters *counters, const struct live_options *options);
void counters_close(struct counters *counters);

// From another thread: no tick from now on. Their owner may close them as usual.
void counters_take_away(struct counters *counters);

// Whether a tick says that the thread was off the processor.
bool counter_tick_is_offcpu(int signal, const siginfo_t *info);

// Which of them a tick is of; -1: of none.
int counter_of_tick(int signal, const siginfo_t *info);

// At a tick: what was counted since counter_take().
uint64_t counter_news(struct counters *counters, unsigned index);
void counter_take(struct counters *counters, unsigned index);

// For the calling thread, without a tick: what no sample has taken. It is taken.
uint64_t counter_rest(struct counters *counters, unsigned index,
                      const struct live_options *options);

#endif
