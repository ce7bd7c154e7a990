// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_EVENTS_COUNTER_NAMES_H
#define CAIRN_CMD_EVENTS_COUNTER_NAMES_H

// Counters by the names that perf has for them. Each is a row of one table.

#include "live/live.h"
#include <stdbool.h>
#include <stddef.h>

struct counter_name {
    const char *name;
    const char *other; // a second name of the same; NULL: none
    uint32_t type;     // as in struct perf_event_attr
    uint64_t config;
    const char *unit;
    const char *meaning;
    enum live_rest rest;
    bool is_in_kernel; // it happens there alone: takes the right to watch the kernel
};

// The rows, in the order of 'cairn list'.
extern const struct counter_name counter_names[];
extern const size_t counter_name_count;

// NULL: there is no such row.
const struct counter_name *counter_name_find(const char *name);

// Names of the caches of a processor: L1-dcache-load-misses, LLC-loads. False: it is none.
bool counter_name_cache(const char *name, uint64_t *config);

// One that is near to a name that does not exist; NULL: none is.
const char *counter_name_near(const char *name, const char *const *others);

#endif
