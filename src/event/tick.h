// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_TICK_H
#define CAIRN_EVENT_TICK_H

// The cookie that comes back with the signal of a perf event, and says which of ours it is.

#include "live/live.h"
#include <signal.h>

#define TICK_COOKIE UINT64_C(0x6361697274696b65)       // a period of CPU time
#define SWITCH_COOKIE (TICK_COOKIE + 1)                // a wait has ended
#define COUNTER_COOKIE (TICK_COOKIE + 2)               // counter.h: of the first, the others follow
#define OFFCPU_COOKIE (COUNTER_COOKIE + LIVE_COUNTERS) // offcpu.h: it was off the processor
#define TICK_COOKIES (3 + LIVE_COUNTERS)

#define PERF_TRAP 6 // si_code TRAP_PERF: older headers lack it

// The part of siginfo_t that a perf SIGTRAP fills; libc's headers of this age do not name it.
struct perf_siginfo {
    int signal, error, code, padding;
    void *address;
    unsigned long data;
};

// Of a SIGTRAP; 0: no perf event has sent it. Signal-safe.
static inline uint64_t tick_cookie(const siginfo_t *info)
{
    return info->si_code == PERF_TRAP ? ((const struct perf_siginfo *)info)->data : 0;
}

#endif
