// SPDX-License-Identifier: MIT

#include "analyze/summary/summary.h"

static uint64_t sum_metric(const struct profile *profile, unsigned metric)
{
    uint64_t sum = 0;
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        for (uint32_t i = 0; i < tree->count; i++)
            if (tree->nodes[i].function == 0 || !profile_is_cost(&profile->metrics[metric]))
                sum += tree->values[(size_t)i * profile->metric_count + metric];
    }
    return sum;
}

bool summary_alloc(const struct profile *profile, struct summary_alloc *alloc)
{
    static const char *const names[ALLOC_METRICS] = {
        "alloc", "allocs", "freed", "frees", "live", "live-blocks", "peak", "peak-blocks"};
    *alloc = (struct summary_alloc){.has = {false}};
    for (unsigned metric = 0; metric < profile->metric_count; metric++) {
        if (!profile_is_alloc(&profile->metrics[metric]))
            continue;
        for (unsigned i = 0; i < ALLOC_METRICS; i++)
            if (strcmp(profile->metrics[metric].name, names[i]) == 0) {
                alloc->has[i] = true;
                alloc->sum[i] = sum_metric(profile, metric);
            }
    }
    return alloc->has[ALLOC_BYTES];
}

double summary_rate(const struct profile *profile, unsigned metric,
                    const struct profile_totals *totals)
{
    if (!profile_is_time(&profile->metrics[metric]))
        return 0;
    // Wall time beside CPU time: the cost of samples is CPU time, but all samples have wall time.
    unsigned cpu = 0;
    while (cpu < profile->metric_count && strcmp(profile->metrics[cpu].name, "cpu") != 0)
        cpu++;
    if (cpu == profile->metric_count || cpu == metric ||
        sum_metric(profile, cpu) != totals->cost_ns)
        return totals_rate(totals);
    const uint64_t sum = sum_metric(profile, metric);
    return sum ? (double)totals->samples * 1e9 / (double)sum : 0;
}
