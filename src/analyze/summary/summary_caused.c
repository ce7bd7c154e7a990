// SPDX-License-Identifier: MIT

#include "analyze/summary/summary.h"
#include "profile/queries/caused_metrics.h"
#include "profile/queries/sampling_error.h"

static unsigned alloc_metric(const struct profile_metric *metric)
{
    static const char *const names[ALLOC_METRICS] = {
        [ALLOC_BYTES] = "alloc",
        [ALLOC_BLOCKS] = "allocs",
        [ALLOC_FREED] = "freed",
        [ALLOC_FREES] = "frees",
        [ALLOC_LIVE] = "live",
        [ALLOC_LIVE_BLOCKS] = "live-blocks",
        [ALLOC_PEAK] = "peak",
        [ALLOC_PEAK_BLOCKS] = "peak-blocks",
        [ALLOC_LIVE_AGE] = "live-age",
        [ALLOC_TEMPORARY] = "temporary",
        [ALLOC_MAPPED] = "mapped",
        [ALLOC_UNMAPPED] = "unmapped",
        [ALLOC_VARIANCE] = PROFILE_ALLOC_VARIANCE,
    };
    unsigned i = 0;
    while (i < ALLOC_METRICS && !(profile_is_alloc(metric) && strcmp(metric->name, names[i]) == 0))
        i++;
    return i;
}

bool summary_alloc(const struct profile *profile, struct summary_alloc *alloc)
{
    uint64_t sums[PROFILE_MOST_METRICS] = {0};
    *alloc = (struct summary_alloc){.has = {false}};
    for (unsigned i = 0; i < profile->metric_count && i < PROFILE_MOST_METRICS; i++) {
        const unsigned metric = alloc_metric(&profile->metrics[i]);
        if (metric == ALLOC_METRICS)
            continue;
        sums[i] = profile_sum_metric(profile, i);
        alloc->has[metric] = true;
        alloc->sum[metric] = sums[i];
        if (profile_is_estimated(profile, i))
            alloc->period = profile->metrics[i].period;
    }
    for (unsigned i = 0; i < profile->metric_count && i < PROFILE_MOST_METRICS; i++) {
        const unsigned metric = alloc_metric(&profile->metrics[i]);
        if (metric < ALLOC_METRICS)
            alloc->error[metric] = profile_sampling_error(profile, i, sums);
    }
    return alloc->has[ALLOC_BYTES];
}

// Sums of the metrics of an event. False: the profile has none of it.
static bool sum_event(const struct profile *profile, const char *event, bool *has, uint64_t *sums)
{
    const struct caused_metrics *caused = caused_metrics_of(event);
    for (unsigned metric = 0; metric < profile->metric_count; metric++)
        for (unsigned i = 0; i < caused->count; i++)
            if (profile_is_from(&profile->metrics[metric], caused->source) &&
                strcmp(profile->metrics[metric].name, caused->metrics[i].name) == 0) {
                has[i] = true;
                sums[i] = profile_sum_metric(profile, metric);
            }
    return has[0];
}

bool summary_io(const struct profile *profile, struct summary_io *io)
{
    *io = (struct summary_io){.has = {false}};
    return sum_event(profile, "io", io->has, io->sum);
}

bool summary_lock(const struct profile *profile, struct summary_lock *lock)
{
    *lock = (struct summary_lock){.has = {false}};
    return sum_event(profile, "lock", lock->has, lock->sum);
}

bool summary_names_event(const struct profile_metric *metric)
{
    return strcmp(metric->name, "alloc") == 0 || caused_metrics_of(metric->name);
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
        profile_sum_metric(profile, cpu) != totals->cost_ns)
        return totals_rate(totals);
    const uint64_t sum = profile_sum_metric(profile, metric);
    return sum ? (double)totals->samples * 1e9 / (double)sum : 0;
}
