// SPDX-License-Identifier: MIT

#include "analyze/metric_ratios.h"
#include <string.h>

const struct metric_ratio metric_ratios[METRIC_RATIOS] = {
    {"alloc-size", "bytes", "alloc", "allocs", "bytes of an allocated block"},
    {"age", "s", "live-age", "live", "age of a live byte"},
    {"io-size", "bytes", "io", "io-ops", "bytes of an operation"},
    {"io-latency", "ns", "io-time", "io-ops", "time of an operation"},
    {"lock-wait", "ns", "lock", "contended", "time of a wait for a lock that was busy"},
    {"wait-time", "ns", "offcpu", "waits", "time of a wait"},
    {"ipc", "", "instructions", "cycles", "instructions per cycle"},
    {"waiting-share", "%", METRIC_WAITING, "wall", "share of the wall time that is waiting"},
};

// The number of a metric; metric_count: there is none of that name.
static unsigned find_metric(const struct profile *profile, const char *name)
{
    unsigned i = 0;
    while (i < profile->metric_count && strcmp(profile->metrics[i].name, name) != 0)
        i++;
    return i;
}

static bool find_time(const struct profile *profile, const char *name, unsigned *number)
{
    *number = find_metric(profile, name);
    return *number < profile->metric_count && profile_is_time(&profile->metrics[*number]);
}

bool metric_waiting(const struct profile *profile, unsigned *wall, unsigned *cpu)
{
    return find_time(profile, "wall", wall) && find_time(profile, "cpu", cpu);
}

bool metric_ratio_parts(const struct metric_ratio *ratio, const struct profile *profile,
                        unsigned *of, unsigned *over)
{
    *of = find_metric(profile, ratio->of);
    *over = find_metric(profile, ratio->over);
    unsigned wall, cpu;
    const bool of_waiting = strcmp(ratio->of, METRIC_WAITING) == 0;
    return *over < profile->metric_count &&
           (of_waiting ? metric_waiting(profile, &wall, &cpu) : *of < profile->metric_count);
}

double metric_ratio_value(const char *unit, uint64_t of, uint64_t over)
{
    return (strcmp(unit, "%") == 0 ? 100 : 1) * (double)of / (double)over;
}
