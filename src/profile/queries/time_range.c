// SPDX-License-Identifier: MIT
#include "profile/queries/time_range.h"
#include "profile/loader.h"
#include "profile/timeline.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_within(const struct time_range *range, uint64_t time)
{
    return time >= range->from_ns && time < range->to_ns;
}

static bool is_frame(const struct profile_tree *tree, uint32_t node)
{
    return node == 0 || tree->nodes[node].function != 0;
}

// A tree of the same nodes, and of other values.
struct cut {
    const struct profile *profile;
    const struct profile_tree *tree;
    uint64_t *values;
    struct live_stats stats;
};

static void charge(struct cut *cut, uint32_t node, unsigned metric, uint64_t weight)
{
    cut->values[(size_t)node * cut->profile->metric_count + metric] += weight;
    if (metric == cut->profile->timeline.metrics[0])
        cut->stats.cost_ns += weight;
}

static void charge_range(struct cut *cut, const struct time_range *range)
{
    uint64_t charges[2] = {0};
    struct timeline_cursor cursor = timeline_begin(cut->profile, cut->tree);
    for (struct timeline_charge next; timeline_next(&cursor, &next);) {
        if (!is_within(range, next.time_ns))
            continue;
        charge(cut, next.node, next.metric, next.weight);
        charges[next.metric != cut->profile->timeline.metrics[0]]++;
    }
    // A sample is charged in one metric, or in both.
    cut->stats.samples = charges[0] > charges[1] ? charges[0] : charges[1];
}

uint64_t time_range_outside(const struct profile *profile, const struct profile_tree *tree)
{
    const struct profile_process *process = &profile->processes[tree->process];
    const bool starts = tree->count > 1 && tree->nodes[1].function == PLACE_STARTUP;
    const uint64_t time = starts ? process->start_ns : process->end_ns,
                   began = profile->timeline.start_ns;
    return time > began ? time - began : 0;
}

// Time outside of samples has no charges, and no thread.
static void charge_outside(struct cut *cut, const struct time_range *range)
{
    const struct profile_tree *tree = cut->tree;
    if (!is_within(range, time_range_outside(cut->profile, tree)))
        return;
    for (uint32_t i = 1; i < tree->count; i++)
        for (unsigned m = 0; m < cut->profile->metric_count; m++)
            if (!is_frame(tree, i) && profile_is_cost(&cut->profile->metrics[m]))
                charge(cut, i, m, tree->values[(size_t)i * cut->profile->metric_count + m]);
}

static bool has_values(const struct cut *cut, uint32_t node)
{
    const unsigned metrics = cut->profile->metric_count;
    for (unsigned m = 0; m < metrics; m++)
        if (cut->values[(size_t)node * metrics + m])
            return true;
    return false;
}

// The nodes that have costs, and those above them. False: out of memory.
static bool prune(struct cut *cut, struct profile_tree *pruned)
{
    const struct profile_tree *tree = cut->tree;
    const unsigned metrics = cut->profile->metric_count;
    uint32_t *numbers = calloc(tree->count, sizeof *numbers); // 1: is kept; then its new number
    uint32_t count = 1;
    if (!numbers)
        return false;
    for (uint32_t i = tree->count; i-- > 1;) {
        numbers[i] |= has_values(cut, i);
        count += numbers[i];
        if (numbers[i])
            numbers[tree->nodes[i].parent] = 1;
    }
    // The charges of the root itself lie in a statement below it.
    const bool unplaced = has_values(cut, 0);
    const bool grown = profile_grow_tree(pruned, count + unplaced, metrics);
    for (uint32_t i = 0; grown && i < tree->count; i++) {
        if (i && !numbers[i])
            continue;
        pruned->nodes[pruned->count] = tree->nodes[i];
        if (i) {
            pruned->nodes[pruned->count].parent = numbers[tree->nodes[i].parent];
            memcpy(&pruned->values[(size_t)pruned->count * metrics],
                   &cut->values[(size_t)i * metrics], metrics * sizeof *cut->values);
        }
        numbers[i] = pruned->count++;
    }
    if (grown && unplaced) {
        memcpy(&pruned->values[(size_t)pruned->count * metrics], cut->values,
               metrics * sizeof *cut->values);
        pruned->nodes[pruned->count++] = (struct profile_node){0, 0, 0};
    }
    free(numbers);
    return grown;
}

static bool cut_tree(const struct profile *profile, struct profile_tree *tree,
                     const struct time_range *range)
{
    struct cut cut = {.profile = profile, .tree = tree};
    struct profile_tree pruned = {0};
    cut.values = calloc((size_t)tree->count * profile->metric_count, sizeof *cut.values);
    if (!cut.values)
        return false;
    if (tree->threads == 0)
        charge_outside(&cut, range);
    else
        charge_range(&cut, range);
    const bool done = prune(&cut, &pruned);
    free(cut.values);
    free(done ? tree->nodes : pruned.nodes);
    free(done ? tree->values : pruned.values);
    if (!done)
        return false;
    tree->nodes = pruned.nodes;
    tree->values = pruned.values;
    tree->count = pruned.count;
    tree->stats = cut.stats;
    free(tree->charges.sections); // of other nodes
    tree->charges = (struct profile_charges){0};
    return true;
}

int profile_keep_range(struct profile *profile, const struct time_range *range)
{
    for (unsigned i = 0; i < profile->process_count; i++)
        profile->processes[i].samples = profile->processes[i].cost_ns = 0;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        if (!cut_tree(profile, tree, range))
            return -ENOMEM;
        profile->processes[tree->process].samples += tree->stats.samples;
        profile->processes[tree->process].cost_ns += tree->stats.cost_ns;
    }
    return 0;
}
