// SPDX-License-Identifier: MIT
#include "profile/merge/interval.h"
#include "profile/loader.h"
#include "profile/merge/fold.h"
#include "profile/merge/merge.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static uint64_t *values_of(const struct profile *profile, const struct profile_tree *tree,
                           uint32_t node)
{
    return &tree->values[(size_t)node * profile->metric_count];
}

// A state rather than a sum: the blocks that are live now.
static bool is_state(const struct profile_metric *metric)
{
    return profile_is_alloc(metric) &&
           (strncmp(metric->name, "live", 4) == 0 || strncmp(metric->name, "peak", 4) == 0);
}

static unsigned find_error(const struct profile *profile)
{
    unsigned i = 0;
    while (i < profile->metric_count && !profile_has_unit(&profile->metrics[i], PROFILE_ERROR))
        i++;
    return i;
}

// The metric that the error of a node is about.
static unsigned bounded_metric(const struct profile *profile, const struct profile_node *node)
{
    for (unsigned i = 0; node->function && i < profile->metric_count; i++)
        if (profile_counts_calls(&profile->metrics[i]))
            return i;
    return 0;
}

// A statement below the root, for cost whose place is not known. NONE: out of memory.
static uint32_t find_rest(const struct profile *profile, struct profile_tree *tree)
{
    for (uint32_t i = 1; i < tree->count; i++)
        if (tree->nodes[i].parent == 0 && !tree->nodes[i].function && !tree->nodes[i].site)
            return i;
    if (!tree->count || !profile_grow_tree(tree, tree->count + 1, profile->metric_count))
        return NONE;
    tree->nodes[tree->count] = (struct profile_node){.parent = 0};
    return tree->count++;
}

// The counter of a context that took over another one's has that one's count, too: its error. Such
// cost was not seen here, so it becomes cost of no known place.
static int take_errors_out(const struct profile *profile, struct profile_tree *tree, unsigned error)
{
    const uint32_t rest = tree->count ? find_rest(profile, tree) : NONE;
    if (rest == NONE)
        return tree->count ? -ENOMEM : 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        uint64_t *values = values_of(profile, tree, i);
        const unsigned metric = bounded_metric(profile, &tree->nodes[i]);
        const uint64_t part = values[error] < values[metric] ? values[error] : values[metric];
        values[error] = 0;
        values[metric] -= part;
        if (!tree->nodes[i].function)
            values_of(profile, tree, rest)[metric] += part;
    }
    return 0;
}

static int take_all_errors_out(struct profile *profile)
{
    const unsigned error = find_error(profile);
    int result = 0;
    for (unsigned i = 0; error < profile->metric_count && i < profile->tree_count && !result; i++)
        result = take_errors_out(profile, &profile->trees[i], error);
    return result;
}

// Sums are taken modulo 2^64, so that adding what was there before takes it away.
static void negate(struct profile *profile)
{
    for (unsigned t = 0; t < profile->tree_count; t++) {
        struct profile_tree *tree = &profile->trees[t];
        for (size_t i = 0; i < (size_t)tree->count * profile->metric_count; i++)
            tree->values[i] =
                is_state(&profile->metrics[i % profile->metric_count]) ? 0 : -tree->values[i];
        struct live_stats *stats = &tree->stats;
        *stats = (struct live_stats){
            .samples = -stats->samples,
            .lost = -stats->lost,
            .unplaced = -stats->unplaced,
            .frames_stack = -stats->frames_stack,
            .frames_walked = -stats->frames_walked,
            .handler_ns = -stats->handler_ns,
            .cost_ns = -stats->cost_ns,
            .residue_ns = -stats->residue_ns,
            .waits = -stats->waits,
            .sparse = -stats->sparse,
            .switches = -stats->switches,
            .purged = -stats->purged,
        };
        tree->threads = 0;
    }
}

// The same program has both, and the first one began no later.
static void subtract_processes(struct profile *interval, const struct profile *before,
                               unsigned count)
{
    for (unsigned i = 0; i < before->process_count && i < count; i++) {
        struct profile_process *process = &interval->processes[i];
        const struct profile_process *earlier = &before->processes[i];
        if (process->pid != earlier->pid || process->start_ns != earlier->start_ns)
            continue;
        process->samples -= earlier->samples;
        process->cost_ns -= earlier->cost_ns;
    }
}

static void drop_processes(struct profile *interval, unsigned from)
{
    for (unsigned i = from; i < interval->process_count; i++) {
        struct profile_process *process = &interval->processes[i];
        for (char **word = process->command; word && *word; word++)
            free(*word);
        free(process->command);
        free(process->contexts.sections);
        free(process->contexts.modules);
    }
    interval->process_count = from;
}

static int64_t gained(const struct profile *profile, const struct profile_tree *tree)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < tree->count; i++)
        for (unsigned m = 0; m < profile->metric_count; m++)
            if (!is_state(&profile->metrics[m]) &&
                profile_is_cost(&profile->metrics[m]) == !tree->nodes[i].function)
                sum += (int64_t)values_of(profile, tree, i)[m];
    return sum;
}

// The tree of the same program that has gained most.
static struct profile_tree *find_winner(const struct profile *profile,
                                        const struct profile_tree *loser)
{
    struct profile_tree *best = NULL;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        if (tree != loser && tree->process == loser->process && tree->count &&
            (!best || gained(profile, tree) > gained(profile, best)))
            best = tree;
    }
    return best;
}

// A tree that has lost cost is that of threads which have another name now.
static int join_renamed(struct profile *profile)
{
    int result = 0;
    for (unsigned i = 0; i < profile->tree_count && !result; i++) {
        struct profile_tree *tree = &profile->trees[i];
        struct profile_tree *into = gained(profile, tree) < 0 ? find_winner(profile, tree) : NULL;
        struct tree_merger *merger = into ? tree_merger_new(into, profile->metric_count) : NULL;
        if (!into)
            continue;
        result = merger ? tree_merger_add(merger, tree, NULL) : -ENOMEM;
        tree_merger_free(merger);
        tree->count = 0;
    }
    return result;
}

// Counters that were given up and taken anew have lost what they had counted before. The rest has
// as much too much.
static void settle(const struct profile *profile, struct profile_tree *tree, uint32_t rest,
                   unsigned metric)
{
    const bool cost = profile_is_cost(&profile->metrics[metric]);
    int64_t lost = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        int64_t *value = (int64_t *)&values_of(profile, tree, i)[metric];
        if (*value >= 0 || i == rest)
            continue;
        lost += tree->nodes[i].function && cost ? 0 : -*value; // a frame has returns there
        *value = 0;
    }
    int64_t *left = (int64_t *)&values_of(profile, tree, rest)[metric];
    *left -= cost ? lost : 0;
    if (*left < 0)
        *left = 0;
}

static int settle_tree(const struct profile *profile, struct profile_tree *tree)
{
    const uint32_t rest = tree->count ? find_rest(profile, tree) : NONE;
    if (rest == NONE)
        return tree->count ? -ENOMEM : 0;
    for (unsigned m = 0; m < profile->metric_count; m++)
        settle(profile, tree, rest, m);
    return 0;
}

// Leaves the nodes that have gained something, and those above them.
static int prune(const struct profile *profile, struct profile_tree *tree)
{
    uint32_t *number = calloc(tree->count + (size_t)1, sizeof *number);
    const size_t each = profile->metric_count * sizeof *tree->values;
    if (!number)
        return -ENOMEM;
    for (uint32_t i = tree->count; i-- > 0;) {
        for (unsigned m = 0; m < profile->metric_count && !number[i]; m++)
            number[i] = values_of(profile, tree, i)[m] != 0;
        if (number[i] && tree->nodes[i].parent != PROFILE_NO_PARENT)
            number[tree->nodes[i].parent] = 1;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        if (!number[i])
            continue;
        struct profile_node node = tree->nodes[i];
        if (node.parent != PROFILE_NO_PARENT)
            node.parent = number[node.parent];
        memmove(values_of(profile, tree, count), values_of(profile, tree, i), each);
        tree->nodes[count] = node;
        number[i] = count++;
    }
    tree->count = count;
    free(number);
    return 0;
}

static void drop_empty_trees(struct profile *profile)
{
    unsigned count = 0;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        if (tree->count) {
            profile->trees[count++] = *tree;
            continue;
        }
        free(tree->nodes);
        free(tree->values);
        free(tree->charges.sections);
    }
    profile->tree_count = count;
}

static int make_interval(struct profile *interval, const struct profile *before,
                         const struct profile *now)
{
    if (before) {
        subtract_processes(interval, before, now->process_count);
        interval->start_realtime_ns = now->start_realtime_ns + before->duration_ns;
    }
    interval->complete = true;
    interval->duration_ns = now->duration_ns - (before ? before->duration_ns : 0);
    for (unsigned i = 0; i < interval->metric_count && i < now->metric_count; i++)
        interval->metrics[i].runs = now->metrics[i].runs;
    drop_processes(interval, now->process_count);
    int result = join_renamed(interval);
    for (unsigned i = 0; i < interval->tree_count && !result; i++) {
        result = settle_tree(interval, &interval->trees[i]);
        if (!result)
            result = prune(interval, &interval->trees[i]);
    }
    drop_empty_trees(interval);
    return result;
}

static const struct profile *one_of_both(void *context, size_t number, char **error)
{
    (void)error;
    return ((const struct profile *const *)context)[number];
}

struct profile *profile_interval(struct profile *before, struct profile *now, char **error)
{
    *error = NULL;
    const struct profile *both[] = {now, before};
    if (take_all_errors_out(now) || (before && take_all_errors_out(before)))
        return NULL;
    if (before)
        negate(before);
    const struct merge_source source = {
        .count = before ? 2 : 1, .get = one_of_both, .context = both};
    struct profile *interval = profile_merge(&source, MERGE_BY_PROGRAM, error);
    if (interval && make_interval(interval, before, now)) {
        profile_free(interval);
        return NULL;
    }
    return interval;
}
