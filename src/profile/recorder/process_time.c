// SPDX-License-Identifier: MIT
#include "profile/recorder/process_time.h"
#include <stdlib.h>

struct nodes {
    struct profile_node *nodes;
    uint64_t *values;
    uint32_t count;
    unsigned metrics, metric;
};

static uint32_t add(struct nodes *nodes, uint32_t parent, place_t function, place_t site)
{
    nodes->nodes[nodes->count] =
        (struct profile_node){.parent = parent, .function = function, .site = site};
    return nodes->count++;
}

static void charge(struct nodes *nodes, uint32_t node, uint64_t ns)
{
    nodes->values[(size_t)node * nodes->metrics + nodes->metric] += ns;
}

static int by_place(const void *left, const void *right)
{
    const place_t a = *(const place_t *)left, b = *(const place_t *)right;
    return a < b ? -1 : a > b;
}

// The frame that a sample belongs to. The function is the one that the instruction lies in.
static place_t frame_of(place_t sample)
{
    return sample == PLACE_STARTUP_KERNEL ? sample
                                          : place_make(place_module(sample), PLACE_OFFSET_UNKNOWN);
}

// Samples in order: those of one frame, and of one instruction, follow each other.
static uint64_t add_samples(struct nodes *nodes, uint32_t parent, const struct process_time *time)
{
    // Two clocks: the samples' may be ahead of the sum.
    const uint64_t even = time->count ? time->ns / time->count : 0;
    const uint64_t weight = time->period_ns < even ? time->period_ns : even;
    uint32_t frame = 0, statement = 0;
    uint64_t charged = 0;
    for (size_t i = 0; i < time->count; i++) {
        const place_t sample = time->samples[i];
        if (!sample)
            continue;
        if (!frame || nodes->nodes[frame].function != frame_of(sample)) {
            frame = add(nodes, parent, frame_of(sample), 0);
            statement = 0;
        }
        const place_t site = sample == PLACE_STARTUP_KERNEL ? 0 : sample;
        if (!statement || nodes->nodes[statement].site != site)
            statement = add(nodes, frame, 0, site);
        charge(nodes, statement, weight);
        charged += weight;
    }
    return charged;
}

void process_time_encode(struct process_time *time, struct live_sink *sink)
{
    const size_t most = 3 + 2 * time->count;
    struct nodes nodes = {
        .nodes = calloc(most, sizeof *nodes.nodes),
        .values = calloc(most * sink->metrics, sizeof *nodes.values),
        .metrics = sink->metrics,
        .metric = sink->time_metrics[0],
    };
    if (nodes.nodes && nodes.values) {
        if (time->count)
            qsort(time->samples, time->count, sizeof *time->samples, by_place);
        add(&nodes, PROFILE_NO_PARENT, 0, 0);
        const uint32_t frame = add(&nodes, 0, time->what, 0), rest = add(&nodes, frame, 0, 0);
        charge(&nodes, rest, time->ns - add_samples(&nodes, frame, time));
        const struct profile_tree tree = {
            .process = time->process,
            .tid = time->pid,
            .stats = {.cost_ns = time->ns, .residue_ns = time->ns},
        };
        write_tree(sink->batch, sink->next_tree, &tree);
        write_nodes(sink->batch, &(struct written_nodes){.tree = sink->next_tree,
                                                         .count = nodes.count,
                                                         .nodes = nodes.nodes,
                                                         .values = nodes.values,
                                                         .metrics = nodes.metrics});
        sink->next_tree++;
        sink->totals->cost_ns += time->ns;
    }
    free(nodes.nodes);
    free(nodes.values);
}
