// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_COUNTER_ATTRIBUTES_H
#define CAIRN_EVENT_COUNTER_ATTRIBUTES_H

// A counter as the kernel wants it described. The tool tries what the agent opens.

#include "live/live.h"
#include <linux/perf_event.h>
#include <string.h>

static inline void counter_attributes(const struct live_counter *counter,
                                      struct perf_event_attr *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->size = sizeof *attributes;
    attributes->type = counter->type;
    attributes->config = counter->config;
    attributes->config1 = counter->config1;
    attributes->config2 = counter->config2;
    attributes->freq = counter->is_rate;
    attributes->sample_period = counter->period;
    attributes->precise_ip = counter->precise;
    attributes->exclude_kernel = counter->exclude_kernel;
    attributes->exclude_hv = 1;
    attributes->disabled = 1;
    attributes->sigtrap = 1;
    attributes->remove_on_exec = 1;
}

#endif
