// SPDX-License-Identifier: MIT
#include "profile/recorder/metrics.h"
#include "profile/recorder/live_values.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text)
{
    return strdup(text ? text : "");
}

static bool has_event(const struct recorder_description *description, const char *name)
{
    for (unsigned i = 0; i < description->event_count; i++)
        if (strcmp(description->events[i].name, name) == 0)
            return true;
    return false;
}

bool description_follows_calls(const struct recorder_description *description)
{
    if (has_event(description, "calls"))
        return true;
    // The one count of a context in a hot tree is the event's.
    return description->tracker && strcmp(description->tracker, "calls") == 0 &&
           !(description->tree_kind && strncmp(description->tree_kind, "hot", 3) == 0);
}

static bool describe_metric(struct profile *head, const struct recorder_event *event,
                            const char *source)
{
    struct profile_metric *metric = &head->metrics[head->metric_count++];
    metric->name = copy_text(event->name);
    metric->unit = copy_text(event->unit);
    metric->source = copy_text(source);
    metric->period = event->period;
    metric->rate_requested = event->rate_requested;
    return metric->name && metric->unit && metric->source;
}

// The source of samples is known when the first process has found it out; calls are not sampled.
static const char *source_of(const struct recorder_event *event)
{
    const struct caused_metrics *caused = caused_metrics_of(event->name);
    return event->is_counter                         ? PROFILE_COUNTER_SOURCE
           : caused                                  ? caused->source
           : strcmp(event->name, "alloc") == 0       ? PROFILE_ALLOC_SOURCE
           : strcmp(event->unit, PROFILE_CALLS) == 0 ? "hooks"
                                                     : live_source_name(LIVE_SOURCE_AUTO);
}

bool metrics_describe_bound(struct profile *head, const char *word, const char *unit)
{
    const struct profile_metric *metric = &head->metrics[head->metric_count - 1];
    char *name = NULL;
    if (asprintf(&name, "%s %s", metric->name, word) < 0)
        return false;
    bool described = describe_metric(
        head, &(struct recorder_event){name, unit, metric->period, 0, false}, "tree");
    free(name);
    return described;
}

bool description_allocates(const struct recorder_description *description)
{
    return has_event(description, "alloc") && strcmp(description->tree_kind, "full") == 0;
}

// All but the first, which is described by the event. In the order of enum alloc_metric.
static bool describe_allocations(struct profile *head, uint64_t period, unsigned count)
{
    static const struct {
        const char *name, *unit;
    } metrics[ALLOC_METRICS] = {
        [ALLOC_BLOCKS] = {"allocs", "blocks"},
        [ALLOC_FREED] = {"freed", "bytes"},
        [ALLOC_FREES] = {"frees", "blocks"},
        [ALLOC_LIVE] = {"live", "bytes"},
        [ALLOC_LIVE_BLOCKS] = {"live-blocks", "blocks"},
        [ALLOC_PEAK] = {"peak", "bytes"},
        [ALLOC_PEAK_BLOCKS] = {"peak-blocks", "blocks"},
        [ALLOC_LIVE_AGE] = {"live-age", PROFILE_BIRTHS},
        [ALLOC_TEMPORARY] = {"temporary", "blocks"},
        [ALLOC_MAPPED] = {"mapped", "bytes"},
        [ALLOC_UNMAPPED] = {"unmapped", "bytes"},
        [ALLOC_VARIANCE] = {PROFILE_ALLOC_VARIANCE, PROFILE_VARIANCE},
    };
    for (unsigned i = ALLOC_BLOCKS; i < count; i++) {
        // Each mapping is counted; for ages no interval is known.
        const bool whole = i == ALLOC_MAPPED || i == ALLOC_UNMAPPED || i == ALLOC_LIVE_AGE;
        const struct recorder_event event = {
            .name = metrics[i].name, .unit = metrics[i].unit, .period = whole ? 1 : period};
        if (!describe_metric(head, &event, PROFILE_ALLOC_SOURCE))
            return false;
    }
    return true;
}

// All but the first, which is described by the event.
static bool describe_caused(struct profile *head, const struct caused_metrics *caused)
{
    for (unsigned i = 1; i < caused->count; i++)
        if (!describe_metric(head,
                             &(struct recorder_event){caused->metrics[i].name,
                                                      caused->metrics[i].unit, 1, 0, false},
                             caused->source))
            return false;
    return true;
}

// The metrics of an event, and where their values come from.
static bool describe_event(struct profile *head, const struct recorder_event *event, bool full,
                           struct live_sink *sink)
{
    const unsigned metric = head->metric_count;
    const struct caused_metrics *caused = caused_metrics_of(event->name);
    if (!describe_metric(head, event, source_of(event)))
        return false;
    if (event->is_counter) {
        if (sink->counters < LIVE_COUNTERS)
            sink->counter_metrics[sink->counters++] = metric;
        return true;
    }
    if (full && caused) {
        sink->caused[caused - caused_metrics].metric = metric;
        sink->caused[caused - caused_metrics].count = caused->count;
        return describe_caused(head, caused);
    }
    if (full && strcmp(event->name, "alloc") == 0) {
        sink->alloc_metric = metric;
        sink->alloc_metrics = event->period > 1 ? ALLOC_METRICS : ALLOC_VARIANCE;
        return describe_allocations(head, event->period, sink->alloc_metrics);
    }
    if (profile_counts_calls(&head->metrics[metric]))
        sink->calls_metric = metric;
    else if (sink->times < 2)
        sink->time_metrics[sink->times++] = metric;
    return true;
}

// CPU time comes before wall time in a node.
static void order_times(const struct profile *head, struct live_sink *sink)
{
    unsigned *metrics = sink->time_metrics;
    if (sink->times == 2 && strcmp(head->metrics[metrics[1]].name, "cpu") == 0) {
        const unsigned first = metrics[0];
        metrics[0] = metrics[1];
        metrics[1] = first;
    }
    // Calls alone: statements have values of their own.
    if (sink->times == 0 && !live_has_values(sink) && !sink->counters)
        metrics[sink->times++] = 0;
}

bool metrics_describe(struct profile *head, const struct recorder_description *description,
                      struct live_sink *sink)
{
    size_t words = 0;
    while (description->command && description->command[words])
        words++;
    head->command = calloc(words + 1, sizeof *head->command);
    head->metrics = calloc(PROFILE_MOST_METRICS, sizeof *head->metrics);
    if (!head->command || !head->metrics)
        return false;
    // Trees that forget have one value of an event.
    const bool full = description->tree_kind && strcmp(description->tree_kind, "full") == 0;
    bool whole = true;
    for (size_t i = 0; i < words; i++)
        whole &= (head->command[i] = copy_text(description->command[i])) != NULL;
    whole &= (head->tracker = copy_text(description->tracker)) != NULL;
    whole &= (head->tree_kind = copy_text(description->tree_kind)) != NULL;
    for (unsigned i = 0; i < description->event_count; i++)
        whole &= describe_event(head, &description->events[i], full, sink);
    const struct recorder_event calls = {PROFILE_CALLS, PROFILE_CALLS, 1, 0, false};
    if (description_follows_calls(description) && !has_event(description, PROFILE_CALLS))
        whole &= describe_event(head, &calls, false, sink);
    order_times(head, sink);
    return whole;
}
