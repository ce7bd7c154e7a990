// SPDX-License-Identifier: MIT

#include "cmd/top/model.h"
#include "base/memory.h"
#include "profile/chunks/output.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t top_key(uint64_t parent, const struct functions *functions, uint32_t function)
{
    const struct function *of = functions_get(functions, function);
    const uint64_t hash = hash_text(parent ^ UINT64_C(0xcbf29ce484222325), of->name);
    return hash_index_mix(hash_text(hash * 31, functions_module_name(functions, of->module)));
}

static uint64_t *keys_of(const struct calltree *tree)
{
    uint64_t *keys = memory_array(tree->count, sizeof *keys);
    for (size_t i = 0; i < tree->count; i++)
        keys[i] =
            top_key(i ? keys[tree->nodes[i].parent] : 0, tree->functions, tree->nodes[i].function);
    return keys;
}

// Costs by context

static void costs_free(struct top_costs *costs)
{
    free(costs->keys);
    free(costs->values);
    hash_index_free(&costs->by_key);
    *costs = (struct top_costs){0};
}

static struct top_costs costs_of(const struct calltree *tree, uint64_t *keys)
{
    struct top_costs costs = {.keys = keys, .count = tree->count, .metrics = tree->metrics};
    const size_t bytes = tree->count * tree->metrics * sizeof *costs.values;
    costs.values = memory_array(bytes, 1);
    memcpy(costs.values, tree->self, bytes);
    for (size_t i = 0; i < tree->count; i++)
        hash_index_add(&costs.by_key, keys[i], (uint32_t)i);
    return costs;
}

static uint64_t cost_before(const struct top_costs *costs, uint64_t key, unsigned metric)
{
    struct hash_index_cursor cursor = hash_index_find(&costs->by_key, key);
    for (uint32_t found; hash_index_next(&costs->by_key, &cursor, &found);)
        if (costs->keys[found] == key)
            return metric < costs->metrics ? costs->values[found * costs->metrics + metric] : 0;
    return 0;
}

// Reading

static void drop_reading(struct top_model *model)
{
    calltree_free(model->tree);
    calltree_free(model->whole);
    free(model->keys);
    if (model->analysis.profile)
        analysis_close(&model->analysis);
    model->tree = model->whole = NULL;
    model->keys = NULL;
}

void top_free(struct top_model *model)
{
    drop_reading(model);
    costs_free(&model->before);
}

static enum top_state state_of(const char *path, const struct profile *profile)
{
    if (profile->complete)
        return TOP_ENDED;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool runs = fd >= 0 && output_is_locked(fd);
    if (fd >= 0)
        close(fd);
    return runs ? TOP_RUNS : TOP_CUT;
}

// The costs of the last reading become those before.
static void turn_page(struct top_model *model)
{
    costs_free(&model->before);
    model->sums_before = model->sums;
    if (!model->whole)
        return;
    model->before = costs_of(model->whole, model->keys);
    model->keys = NULL;
}

static void take_reading(struct top_model *model, const struct analysis *analysis)
{
    static const struct build_options all;
    turn_page(model);
    drop_reading(model);
    model->analysis = *analysis;
    profile_sum(analysis->profile, &model->totals);
    model->sums = (struct top_sums){.duration_ns = analysis->profile->duration_ns,
                                    .samples = model->totals.samples,
                                    .cost_ns = model->totals.cost_ns,
                                    .handler_ns = model->totals.handler_ns};
    analysis_resolve(&model->analysis, &all);
    model->whole = build_calltree(analysis->functions, analysis->profile, &all);
    model->keys = keys_of(model->whole);
    top_choose(model, model->metric < analysis->profile->metric_count ? model->metric : 0);
}

int top_read(struct top_model *model, char **error)
{
    // Names from symbol tables alone: the debug information of a large program takes seconds.
    const struct analysis_options options = {.silent = true}; // the screen is in use
    struct analysis analysis;
    if (analysis_open(&analysis, model->path, &options, error) < 0)
        return -1;
    const struct profile *last = model->analysis.profile, *profile = analysis.profile;
    model->state = state_of(model->path, profile);
    if (last && last->start_realtime_ns == profile->start_realtime_ns &&
        last->duration_ns == profile->duration_ns && last->complete == profile->complete) {
        analysis_close(&analysis);
        return 0;
    }
    if (last && last->start_realtime_ns != profile->start_realtime_ns) {
        top_free(model); // another recording
        model->analysis = (struct analysis){0};
        model->sums = (struct top_sums){0};
    }
    take_reading(model, &analysis);
    return 0;
}

// The tree of a metric

void top_choose(struct top_model *model, unsigned metric)
{
    const struct calltree *whole = model->whole;
    struct calltree *tree =
        calltree_new(whole->functions, TOP_VALUES, calltree_function(whole, 0)->name);
    calltree_free(model->tree);
    model->metric = metric;
    model->tree = tree;
    for (uint32_t i = 0; i < whole->count; i++) {
        const struct call_node *node = &whole->nodes[i];
        const uint64_t all = calltree_self(whole, i, metric),
                       before = cost_before(&model->before, model->keys[i], metric);
        if (i > 0)
            calltree_append(tree, node->parent,
                            (struct call_edge){.function = node->function, .kind = node->kind});
        tree->self[(size_t)i * TOP_VALUES + TOP_ALL] = all;
        tree->self[(size_t)i * TOP_VALUES + TOP_NOW] = all > before ? all - before : 0;
    }
    calltree_sum(tree);
}

unsigned top_next_metric(const struct top_model *model)
{
    const struct profile *profile = model->analysis.profile;
    unsigned metric = model->metric;
    do
        metric = (metric + 1) % profile->metric_count;
    while (metric != model->metric && !profile_is_cost(&profile->metrics[metric]) &&
           !profile_counts_calls(&profile->metrics[metric]));
    return metric;
}
