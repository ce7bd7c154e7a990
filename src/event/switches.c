// SPDX-License-Identifier: MIT
#include "event/switches.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t count_now(void)
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    if (syscall(SYS_getrusage, RUSAGE_THREAD, &usage))
        return 0;
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

uint64_t switches_period(uint64_t period_ns)
{
    struct timespec tick;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) || tick.tv_sec)
        return period_ns;
    const uint64_t longer = SWITCHES_TICKS * (uint64_t)tick.tv_nsec;
    return longer > period_ns ? longer : period_ns;
}

void switches_begin(struct switches *switches, uint64_t cpu_ns, bool own)
{
    *switches = (struct switches){.count = own ? count_now() : 0,
                                  .cpu_ns = cpu_ns,
                                  .samples_left = SWITCHES_FIRST,
                                  .is_new = !own};
}

struct switches_since switches_take(struct switches *switches, uint64_t cpu_ns, bool sparse)
{
    const uint64_t now = count_now();
    struct switches_since since = {0};
    if (!switches->is_new && now > switches->count)
        since.count = now - switches->count;
    if (!switches->is_new && cpu_ns > switches->cpu_ns)
        since.cpu_ns = cpu_ns - switches->cpu_ns;
    *switches = (struct switches){
        .count = now, .cpu_ns = cpu_ns, .samples_left = sparse ? SWITCHES_SPARSE : SWITCHES_REVIEW};
    return since;
}

bool switches_are_many(const struct switches_since *since, uint64_t period_ns, bool sparse)
{
    const uint64_t periods = since->cpu_ns / period_ns + 1;
    // Halfway back, so that a thread does not alternate.
    return since->count > periods * (sparse ? SWITCHES_MOST / 2 : SWITCHES_MOST);
}
