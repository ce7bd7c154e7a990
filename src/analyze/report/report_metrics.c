// SPDX-License-Identifier: MIT

#include "analyze/report/report_metrics.h"
#include "base/memory.h"

static bool is_offered(const struct profile *profile, unsigned metric)
{
    return !profile_is_error(&profile->metrics[metric]) &&
           !profile_is_edge(&profile->metrics[metric]);
}

// There is room for all that a profile can have, each once.
static void add_metric(struct report_metrics *metrics, struct show_metric metric)
{
    for (unsigned i = 0; i < metrics->count; i++)
        if (metrics->chosen[i].index == metric.index &&
            metrics->chosen[i].is_ratio == metric.is_ratio &&
            metrics->chosen[i].over == metric.over)
            return;
    metrics->chosen[metrics->count++] = metric;
}

static void add_recorded(struct report_metrics *metrics, const struct profile *profile,
                         unsigned index)
{
    add_metric(metrics, (struct show_metric){.name = profile->metrics[index].name,
                                             .unit = profile->metrics[index].unit,
                                             .index = index});
}

void report_want_waiting(struct report_metrics *metrics, const struct profile *profile)
{
    metrics->waiting = metric_waiting(profile, &metrics->wall, &metrics->cpu);
}

static void add_waiting(struct report_metrics *metrics, const struct profile *profile)
{
    report_want_waiting(metrics, profile);
    add_metric(metrics, (struct show_metric){
                            .name = METRIC_WAITING, .unit = "ns", .index = profile->metric_count});
}

// Whether a profile has both parts of a ratio.
static bool find_ratio(const struct metric_ratio *ratio, const struct profile *profile,
                       struct show_metric *metric)
{
    *metric = (struct show_metric){.name = ratio->name, .unit = ratio->unit, .is_ratio = true};
    return metric_ratio_parts(ratio, profile, &metric->index, &metric->over);
}

unsigned report_ratios(const struct profile *profile, struct show_metric ratios[METRIC_RATIOS])
{
    unsigned count = 0;
    for (unsigned i = 0; i < METRIC_RATIOS; i++)
        count += find_ratio(&metric_ratios[i], profile, &ratios[count]);
    return count;
}

// 1: there is no ratio of that name, else as the others.
static int add_ratio(struct report_metrics *metrics, const struct profile *profile,
                     const char *name, char **error)
{
    const struct metric_ratio *ratio = NULL;
    for (unsigned i = 0; name && i < METRIC_RATIOS; i++)
        if (strcmp(metric_ratios[i].name, name) == 0)
            ratio = &metric_ratios[i];
    if (!ratio)
        return 1;
    struct show_metric metric;
    const bool recorded = find_ratio(ratio, profile, &metric);
    if (recorded && metrics->count) {
        if (metric.index == profile->metric_count)
            report_want_waiting(metrics, profile);
        add_metric(metrics, metric);
        return 0;
    }
    if (asprintf(error,
                 recorded ? "%s is %s over %s, and sorts no rows: name another one before it, as "
                            "--metric %s,%s"
                          : "%s is %s over %s: this profile has not both",
                 ratio->name, ratio->of, ratio->over, ratio->of, ratio->name) < 0)
        memory_checked(NULL);
    return -1;
}

static bool has_waiting(const struct profile *profile)
{
    unsigned wall, cpu;
    return metric_waiting(profile, &wall, &cpu);
}

static int add_named(struct report_metrics *metrics, const struct analysis *analysis,
                     const char *name, char **error)
{
    const bool waiting = name && strcmp(name, METRIC_WAITING) == 0;
    if (waiting && has_waiting(analysis->profile)) {
        add_waiting(metrics, analysis->profile);
        return 0;
    }
    const int added = add_ratio(metrics, analysis->profile, name, error);
    if (added <= 0)
        return added;
    const int index = analysis_metric(analysis, name, error);
    if (index >= 0) {
        add_recorded(metrics, analysis->profile, (unsigned)index);
        return 0;
    }
    if (waiting) {
        free(*error);
        *error =
            memory_text("waiting is wall less cpu: it needs a profile of both, as 'cairn record "
                        "-e wall -e cpu' makes it");
    }
    return -1;
}

static void add_all(struct report_metrics *metrics, const struct profile *profile)
{
    unsigned wall, cpu;
    const bool waiting = metric_waiting(profile, &wall, &cpu);
    for (unsigned i = 0; i < profile->metric_count; i++) {
        if (is_offered(profile, i))
            add_recorded(metrics, profile, i);
        // Beside what it is made of.
        if (waiting && i == (wall > cpu ? wall : cpu))
            add_waiting(metrics, profile);
    }
}

int report_choose_metrics(struct report_metrics *metrics, const struct analysis *analysis,
                          const char *names, char **error)
{
    const struct profile *profile = analysis->profile;
    *metrics = (struct report_metrics){0};
    int status = 0;
    if (!names) {
        status = add_named(metrics, analysis, NULL, error);
    } else if (strcmp(names, "all") == 0) {
        add_all(metrics, profile);
    } else {
        char *list = memory_text(names), *rest = list;
        while (status == 0 && rest)
            status = add_named(metrics, analysis, strsep(&rest, ","), error);
        free(list);
    }
    if (status == 0 && metrics->count == 0)
        return add_named(metrics, analysis, NULL, error);
    if (status == 0)
        metrics->recorded = metrics->chosen[0].index < profile->metric_count
                                ? metrics->chosen[0].index
                                : metrics->wall;
    return status;
}

static void renew(const struct report_metrics *metrics, uint64_t *values, size_t count,
                  unsigned stride)
{
    for (size_t i = 0; i < count; i++, values += stride) {
        const uint64_t wall = values[metrics->wall], cpu = values[metrics->cpu];
        // Both are sampled: by chance, there may be more of the smaller.
        values[stride - 1] = wall > cpu ? wall - cpu : 0;
    }
}

static void limit(uint64_t *value, uint64_t most)
{
    *value = *value < most ? *value : most;
}

void report_renew_waiting(const struct report_metrics *metrics, struct calltree *tree)
{
    if (!metrics->waiting)
        return;
    renew(metrics, tree->self, tree->count, tree->metrics);
    renew(metrics, tree->total, tree->count, tree->metrics);
    renew(metrics, tree->line_values, tree->line_count, tree->metrics);
    // By the same chance, a part may wait longer than the whole that it is of.
    const unsigned stride = tree->metrics;
    uint64_t *total = tree->total + stride - 1, *self = tree->self + stride - 1;
    uint64_t *lines = tree->line_values + stride - 1;
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->nodes[i].parent != CALL_NONE)
            limit(&total[i * stride], total[(size_t)tree->nodes[i].parent * stride]);
        limit(&self[i * stride], total[i * stride]);
    }
    for (size_t i = 0; i < tree->line_count; i++)
        limit(&lines[i * stride], self[(size_t)tree->lines[i].node * stride]);
}

void report_renew_flat(const struct report_metrics *metrics, struct flat *flat,
                       const struct calltree *tree)
{
    if (!metrics->waiting)
        return;
    renew(metrics, flat->self, flat->count, flat->metrics);
    renew(metrics, flat->total, flat->count, flat->metrics);
    const unsigned stride = flat->metrics;
    for (size_t i = 0; i < flat->count; i++) {
        limit(&flat->total[(i + 1) * stride - 1], calltree_total(tree, 0, stride - 1));
        limit(&flat->self[(i + 1) * stride - 1], flat->total[(i + 1) * stride - 1]);
    }
}

static uint64_t *widened(uint64_t *values, size_t count, unsigned stride)
{
    uint64_t *wide = memory_array(count * (stride + 1), sizeof *wide);
    for (size_t i = 0; i < count; i++)
        memcpy(wide + i * (stride + 1), values + i * stride, stride * sizeof *wide);
    free(values);
    return wide;
}

void report_add_waiting(const struct report_metrics *metrics, struct calltree *tree)
{
    if (!metrics->waiting)
        return;
    tree->self = widened(tree->self, tree->count, tree->metrics);
    tree->total = widened(tree->total, tree->count, tree->metrics);
    tree->line_values = widened(tree->line_values, tree->line_count, tree->metrics);
    tree->metrics++;
    tree->self_capacity = tree->count * tree->metrics;
    tree->line_values_capacity = tree->line_count * tree->metrics;
    report_renew_waiting(metrics, tree);
}
