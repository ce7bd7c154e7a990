// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_METRIC_RATIOS_H
#define CAIRN_ANALYZE_METRIC_RATIOS_H

// Metrics that are made of recorded ones: `waiting`, the wall time in which no CPU time was spent,
// and ratios, such as the bytes of a block. Reports, their JSON and the viewer take them from here.

#include "profile/profile.h"

#define METRIC_WAITING "waiting"

// Whether a profile has the metrics that `waiting` is made of, and their numbers.
bool metric_waiting(const struct profile *profile, unsigned *wall, unsigned *cpu);

struct metric_ratio {
    const char *name, *unit; // "%": a share
    const char *of, *over;   // names of metrics
    const char *meaning;
};

#define METRIC_RATIOS 8
extern const struct metric_ratio metric_ratios[METRIC_RATIOS];

// Whether a profile has both metrics, and their numbers. That of `waiting` follows the recorded
// ones.
bool metric_ratio_parts(const struct metric_ratio *ratio, const struct profile *profile,
                        unsigned *of, unsigned *over);

// In that unit; `over` is not 0.
double metric_ratio_value(const char *unit, uint64_t of, uint64_t over);

#endif
