// SPDX-License-Identifier: MIT
#include "profile/recorder/metrics.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of a process: costs, calls, and what bounds the last of them.
#define MOST_RECORDED_METRICS 12

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

static bool describe_metric(struct profile *head, const char *name, const char *unit,
                            uint64_t period, double rate)
{
    struct profile_metric *metric = &head->metrics[head->metric_count++];
    metric->name = copy_text(name);
    metric->unit = copy_text(unit);
    // The source of samples is known when the first process has found it out; calls are not
    // sampled.
    metric->source =
        copy_text(profile_counts_calls(metric)                    ? "hooks"
                  : strcmp(unit, "ns") && profile_is_cost(metric) ? PROFILE_ALLOC_SOURCE
                  : profile_is_cost(metric) ? live_source_name(LIVE_SOURCE_AUTO)
                                            : "tree");
    metric->period = period;
    metric->rate_requested = rate;
    return metric->name && metric->unit && metric->source;
}

bool metrics_describe_bound(struct profile *head, const char *word, const char *unit)
{
    const struct profile_metric *metric = &head->metrics[head->metric_count - 1];
    char *name = NULL;
    if (asprintf(&name, "%s %s", metric->name, word) < 0)
        return false;
    bool described = describe_metric(head, name, unit, metric->period, 0);
    free(name);
    return described;
}

bool description_allocates(const struct recorder_description *description)
{
    return has_event(description, "alloc") && strcmp(description->tree_kind, "full") == 0;
}

// All but the first, which is described by the event. In the order of enum alloc_metric.
static bool describe_allocations(struct profile *head)
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
    };
    for (unsigned i = ALLOC_BLOCKS; i < ALLOC_METRICS; i++)
        if (!describe_metric(head, metrics[i].name, metrics[i].unit, 1, 0))
            return false;
    return true;
}

// The metrics of an event, and where their values come from.
static bool describe_event(struct profile *head, const struct recorder_event *event, bool allocates,
                           struct live_sink *sink)
{
    const unsigned metric = head->metric_count;
    if (!describe_metric(head, event->name, event->unit, event->period, event->rate_requested))
        return false;
    if (allocates && strcmp(event->name, "alloc") == 0) {
        sink->alloc_metric = metric;
        return describe_allocations(head);
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
    if (sink->times == 0 && !sink->allocates)
        metrics[sink->times++] = 0;
}

bool metrics_describe(struct profile *head, const struct recorder_description *description,
                      struct live_sink *sink)
{
    size_t words = 0;
    while (description->command && description->command[words])
        words++;
    head->command = calloc(words + 1, sizeof *head->command);
    head->metrics = calloc(MOST_RECORDED_METRICS, sizeof *head->metrics);
    if (!head->command || !head->metrics)
        return false;
    bool whole = true;
    for (size_t i = 0; i < words; i++)
        whole &= (head->command[i] = copy_text(description->command[i])) != NULL;
    whole &= (head->tracker = copy_text(description->tracker)) != NULL;
    whole &= (head->tree_kind = copy_text(description->tree_kind)) != NULL;
    for (unsigned i = 0; i < description->event_count && i < LIVE_EVENTS; i++)
        whole &= describe_event(head, &description->events[i], sink->allocates, sink);
    const struct recorder_event calls = {PROFILE_CALLS, PROFILE_CALLS, 1, 0};
    if (description_follows_calls(description) && !has_event(description, PROFILE_CALLS))
        whole &= describe_event(head, &calls, false, sink);
    order_times(head, sink);
    return whole;
}
