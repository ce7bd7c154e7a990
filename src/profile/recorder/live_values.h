// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_VALUES_H
#define CAIRN_PROFILE_RECORDER_LIVE_VALUES_H

// The meaning of the values of a live node, by metric of the profile. For each metric of millions
// of nodes, again and again: so all of it is here.

#include "profile/recorder/live_reader.h"
#include "tree/tree.h"

struct live_values {
    const struct live_sink *sink;
    unsigned count; // of a node of the tree
};

static inline uint64_t live_difference(const uint64_t *values, unsigned of, unsigned less)
{
    // Read one after the other: a moment may see more freed than allocated.
    return values[of] > values[less] ? values[of] - values[less] : 0;
}

// The value of a statement for each enum alloc_metric.
static inline uint64_t live_alloc_value(const struct live_values *of, const struct node *node,
                                        unsigned metric)
{
    uint64_t values[LIVE_SAVED_BLOCKS + 1];
    const unsigned shift = of->sink->alloc_shift;
    if (of->count < LIVE_ALLOC_VALUES + (shift > 0))
        return 0;
    if (metric >= ALLOC_LIVE_AGE) {
        const unsigned value = LIVE_BIRTHS + metric - ALLOC_LIVE_AGE;
        const uint64_t amount = __atomic_load_n(&node->value[value], __ATOMIC_RELAXED);
        return metric == ALLOC_TEMPORARY ? amount >> shift : amount;
    }
    for (unsigned i = 0; i <= LIVE_SAVED_BLOCKS; i++)
        values[i] = __atomic_load_n(&node->value[i], __ATOMIC_RELAXED);
    const bool saved = values[LIVE_SAVED_BLOCKS] >> 32 == of->sink->peak_stamp;
    if (metric == ALLOC_PEAK && saved)
        return values[LIVE_SAVED_BYTES];
    if (metric == ALLOC_PEAK_BLOCKS && saved)
        return (uint32_t)values[LIVE_SAVED_BLOCKS];
    if (metric == ALLOC_LIVE || metric == ALLOC_PEAK)
        return live_difference(values, LIVE_ALLOC_BYTES, LIVE_FREED_BYTES);
    if (metric == ALLOC_LIVE_BLOCKS || metric == ALLOC_PEAK_BLOCKS)
        return live_difference(values, LIVE_ALLOC_BLOCKS, LIVE_FREED_BLOCKS) >> shift;
    return metric == ALLOC_BLOCKS || metric == ALLOC_FREES ? values[metric] >> shift
                                                           : values[metric];
}

_Static_assert((int)ALLOC_BYTES == LIVE_ALLOC_BYTES && (int)ALLOC_BLOCKS == LIVE_ALLOC_BLOCKS &&
                   (int)ALLOC_FREED == LIVE_FREED_BYTES && (int)ALLOC_FREES == LIVE_FREED_BLOCKS,
               "the first four are the same");
_Static_assert(ALLOC_TEMPORARY - ALLOC_LIVE_AGE == LIVE_TEMPORARY - LIVE_BIRTHS &&
                   ALLOC_MAPPED - ALLOC_LIVE_AGE == LIVE_MAPPED - LIVE_BIRTHS &&
                   ALLOC_VARIANCE - ALLOC_LIVE_AGE == LIVE_ALLOC_VARIANCE - LIVE_BIRTHS,
               "and so are the last");

// Which of enum alloc_metric it is; ALLOC_METRICS: none of them.
static inline unsigned live_alloc_metric(const struct live_sink *sink, unsigned metric)
{
    const unsigned number = metric - sink->alloc_metric;
    return sink->allocates && number < sink->alloc_metrics ? number : ALLOC_METRICS;
}

// Live blocks, and those at the peak, come and go.
static inline bool live_only_grows(const struct live_sink *sink, unsigned metric)
{
    const unsigned number = live_alloc_metric(sink, metric);
    return number < ALLOC_LIVE || number > ALLOC_LIVE_AGE;
}

// Whether statements have values of events that the program causes.
static inline bool live_has_values(const struct live_sink *sink)
{
    bool any = sink->allocates;
    for (unsigned i = 0; i < CAUSED_EVENTS; i++)
        any |= sink->caused[i].count > 0;
    return any;
}

static inline uint64_t live_cost(const struct live_values *of, const struct node *node,
                                 unsigned metric)
{
    const struct live_sink *sink = of->sink;
    const unsigned number = live_alloc_metric(sink, metric);
    if (number < ALLOC_METRICS)
        return live_alloc_value(of, node, number);
    for (unsigned i = 0; i < CAUSED_EVENTS; i++) {
        const unsigned caused = metric - sink->caused[i].metric,
                       at = sink->caused[i].value + caused;
        if (caused < sink->caused[i].count)
            return at < of->count ? __atomic_load_n(&node->value[at], __ATOMIC_RELAXED) : 0;
    }
    for (unsigned i = 0; i < sink->times; i++)
        if (sink->time_metrics[i] == metric && sink->time_value + i < of->count)
            return __atomic_load_n(&node->value[sink->time_value + i], __ATOMIC_RELAXED);
    for (unsigned i = 0; i < sink->counters; i++)
        if (sink->counter_metrics[i] == metric && sink->counter_value + i < of->count)
            return __atomic_load_n(&node->value[sink->counter_value + i], __ATOMIC_RELAXED);
    return 0;
}

// The value of a node as the profile has it. The first one of a frame counts calls, where they are
// followed, else returns, in the place of a time.
static inline uint64_t live_value(const struct live_values *of, const struct node *node,
                                  bool is_frame, unsigned metric)
{
    const struct live_sink *sink = of->sink;
    if (!is_frame)
        return live_cost(of, node, metric);
    if (!sink->follows_calls && (live_has_values(sink) || !sink->times))
        return 0;
    if (metric != (sink->follows_calls ? sink->calls_metric : sink->time_metrics[0]))
        return 0;
    return __atomic_load_n(&node->value[0], __ATOMIC_RELAXED);
}

#endif
