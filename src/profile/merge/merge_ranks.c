// SPDX-License-Identifier: MIT
#include "profile/merge/merge_ranks.h"
#include "profile/loader.h"
#include <errno.h>
#include <stdlib.h>

static bool is_kept(const struct profile_metric *metric)
{
    return profile_is_cost(metric) && !profile_is_error(metric);
}

static uint64_t kept_metrics(const struct rank_merge *merge)
{
    uint64_t metrics = 0;
    for (unsigned i = 0; i < merge->from->metric_count; i++)
        if (is_kept(&merge->from->metrics[i]))
            metrics |= UINT64_C(1) << merge->metric_map[i];
    return metrics;
}

static uint64_t mapped_metrics(const struct rank_merge *merge, uint64_t metrics)
{
    uint64_t mapped = 0;
    for (unsigned i = 0; i < merge->from->metric_count; i++)
        if (metrics >> i & 1)
            mapped |= UINT64_C(1) << merge->metric_map[i];
    return mapped;
}

int rank_merge_begin(struct rank_merge *merge, struct profile *into, const struct profile *from,
                     const unsigned *metric_map, const char *name)
{
    *merge = (struct rank_merge){
        .into = into, .from = from, .metric_map = metric_map, .first = into->rank_count};
    merge->costs = calloc(from->rank_count + (size_t)1, sizeof *merge->costs);
    if (!merge->costs)
        return -ENOMEM;
    if (from->rank_count == 0)
        return ranks_add(into, name, kept_metrics(merge)) ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < from->rank_count; i++)
        if (!ranks_add(into, from->ranks[i].name, mapped_metrics(merge, from->ranks[i].metrics)))
            return -ENOMEM;
    return 0;
}

int rank_merge_room(struct rank_merge *merge, const struct profile_tree *tree)
{
    if (!merge->into || tree->count <= merge->went_capacity)
        return 0;
    free(merge->went);
    merge->went = malloc(tree->count * sizeof *merge->went);
    merge->went_capacity = merge->went ? tree->count : 0;
    return merge->went ? 0 : -ENOMEM;
}

static bool add_cost(struct rank_costs *costs, const struct rank_cost *cost)
{
    if (!profile_grow_by_one((void **)&costs->list, costs->count, sizeof *cost))
        return false;
    costs->list[costs->count++] = *cost;
    return true;
}

// The costs of a profile that was not merged: those of its statements.
static int add_own(struct rank_merge *merge, const struct profile_tree *tree, uint32_t to,
                   const uint32_t *went)
{
    const unsigned metrics = merge->from->metric_count;
    for (uint32_t i = 0; i < tree->count; i++) {
        if (tree->nodes[i].function || tree->nodes[i].parent == PROFILE_NO_PARENT)
            continue;
        for (unsigned m = 0; m < metrics; m++) {
            const struct rank_cost cost = {.metric = merge->metric_map[m],
                                           .tree = to,
                                           .node = went ? went[i] : i,
                                           .value = tree->values[(size_t)i * metrics + m]};
            if (cost.value && is_kept(&merge->from->metrics[m]) && !add_cost(merge->costs, &cost))
                return -ENOMEM;
        }
    }
    return 0;
}

static int pass_on(struct rank_merge *merge, uint32_t tree, uint32_t to, const uint32_t *went)
{
    for (uint32_t i = 0; i < merge->from->rank_count; i++) {
        struct rank_cursor cursor;
        rank_cursor_start(&cursor, merge->from, i);
        for (const struct rank_cost *known; (known = rank_cursor_next(&cursor));) {
            struct rank_cost cost = *known;
            if (cost.tree != tree)
                continue;
            cost.metric = merge->metric_map[cost.metric];
            cost.tree = to;
            cost.node = went ? went[cost.node] : cost.node;
            if (!add_cost(&merge->costs[i], &cost))
                return -ENOMEM;
        }
    }
    return 0;
}

int rank_merge_tree(struct rank_merge *merge, const struct profile_tree *tree, uint32_t to,
                    const uint32_t *went)
{
    if (!merge->into)
        return 0;
    return merge->from->rank_count ? pass_on(merge, (uint32_t)(tree - merge->from->trees), to, went)
                                   : add_own(merge, tree, to, went);
}

int rank_merge_end(struct rank_merge *merge, int result)
{
    const uint32_t count = merge->costs ? merge->into->rank_count - merge->first : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct rank_costs *costs = &merge->costs[i];
        if (result == 0)
            result =
                rank_set_costs(&merge->into->ranks[merge->first + i], costs->list, costs->count);
        free(costs->list);
    }
    free(merge->costs);
    free(merge->went);
    *merge = (struct rank_merge){0};
    return result;
}
