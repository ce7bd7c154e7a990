// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_CAUSED_METRICS_H
#define CAIRN_PROFILE_QUERIES_CAUSED_METRICS_H

// The metrics of events whose values in the program's memory are what the profile has: each value of
// a node is one metric.

#include "live/live.h"

#define CAUSED_EVENTS 3
#define CAUSED_METRICS LIVE_LOCK_VALUES // at most

struct caused_metrics {
    const char *event;  // which is the name of the first metric, too
    const char *source; // as in profile/profile.h
    unsigned count;
    struct {
        const char *name, *unit;
    } metrics[CAUSED_METRICS];
};

extern const struct caused_metrics caused_metrics[CAUSED_EVENTS];

// NULL: it is none of these events.
const struct caused_metrics *caused_metrics_of(const char *event);

#endif
