// SPDX-License-Identifier: MIT

// Which events can be recorded, and how: everything is tried, nothing is guessed.

#include "base/text/text.h"
#include "cmd/doctor/check.h"
#include "cmd/events/restriction.h"
#include "cmd/events/sources.h"
#include "cmd/record/launch/instrumented.h"
#include <time.h>
#include <unistd.h>

#define MOST_HZ 10000 // of 'record -F'
#define USUAL_HZ 1000 // its default
#define RATE_FILE "/proc/sys/kernel/perf_event_max_sample_rate"

// Timers on CPU time are looked at when the kernel ticks.
static long ticks_a_second(void)
{
    struct timespec tick = {.tv_sec = 0};
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) || tick.tv_nsec <= 0)
        return 250;
    return (1000000000 + tick.tv_nsec / 2) / tick.tv_nsec;
}

static void check_cpu(struct checks *checks)
{
    const enum live_source source = best_source(LIVE_EVENT_CPU);
    struct restriction why = {.reason = ""};
    struct check *check;
    if (!restriction_of(LIVE_EVENT_CPU, &why)) {
        check = checks_add(checks, "cpu", CHECK_OK, "perf events, delivered at once (%s)",
                           live_source_name(source));
    } else if (source == LIVE_SOURCE_SIGNAL) {
        check = checks_add(checks, "cpu", CHECK_LIMITED,
                           "perf events, delivered by a signal, which costs more (%s): %s",
                           live_source_name(source), why.reason);
    } else if (source == LIVE_SOURCE_TIMER) {
        check = checks_add(checks, "cpu", CHECK_LIMITED,
                           "timers: at most %ld samples a second, though the totals are right; %s",
                           ticks_a_second(), why.reason);
    } else {
        check = checks_add(checks, "cpu", CHECK_NO, "CPU time cannot be sampled: %s", why.reason);
    }
    check->essential = true;
    if (why.remedy[0])
        check_remedy(check, "%s", why.remedy);
}

static void check_rate(struct checks *checks)
{
    const enum live_source source = best_source(LIVE_EVENT_CPU);
    const long most = read_setting(RATE_FILE, -1);
    if (source != LIVE_SOURCE_SIGTRAP && source != LIVE_SOURCE_SIGNAL)
        return; // timers are not held by it, and check_cpu has said what they can do
    if (most < 0 || most >= MOST_HZ) {
        checks_add(checks, "rate", CHECK_OK, "up to %s samples a second", text_count(MOST_HZ).text);
        return;
    }
    struct check *check = checks_add(
        checks, "rate", CHECK_LIMITED,
        "the kernel throttles perf events at %ld a second (kernel.perf_event_max_sample_rate)%s",
        most, most < USUAL_HZ ? ", and 1,000 is the default of 'record'" : "");
    check_remedy(check, "sudo sysctl kernel.perf_event_max_sample_rate=100000");
}

static void check_wall(struct checks *checks)
{
    struct restriction why = {.reason = ""};
    if (!restriction_of(LIVE_EVENT_WALL, &why)) {
        checks_add(checks, "wall", CHECK_OK, "waiting is seen, too");
        return;
    }
    struct check *check = checks_add(checks, "wall", CHECK_NO,
                                     "'record -e wall' cannot see threads wait: %s", why.reason);
    if (why.remedy[0])
        check_remedy(check, "%s", why.remedy);
}

static void check_calls(struct checks *checks)
{
    const char *why = why_sites_cannot_be_patched();
    checks_add(checks, "alloc", CHECK_OK, "every block is counted, or sampled; needs no rights");
    checks_add(checks, "io", CHECK_OK, "every operation is counted; needs no rights");
    checks_add(checks, "lock", CHECK_OK, "every lock is counted, and its waits; needs no rights");
    if (!why) {
        checks_add(checks, "calls", CHECK_OK,
                   "call sites can be rewritten (--track calls, encode)");
        return;
    }
    struct check *check = checks_add(checks, "calls", CHECK_LIMITED,
                                     "call sites cannot be rewritten (%s): --track calls needs "
                                     "programs built with 'cairn cc'",
                                     why);
    check_remedy(check, "make CC='cairn cc gcc' CXX='cairn cc g++'");
}

void check_events(struct checks *checks)
{
    check_cpu(checks);
    check_rate(checks);
    check_wall(checks);
    check_calls(checks);
}
