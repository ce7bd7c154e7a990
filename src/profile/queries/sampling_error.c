// SPDX-License-Identifier: MIT
#include "profile/queries/sampling_error.h"
#include <math.h>

#define CERTAINTY 1.96 // standard deviations: 19 times of 20

// So many samples more than there are: the interval of a few is right, too. Of none at all, it
// would end at three samples, which come with a chance of 19 in 20.
#define SAMPLES_MORE 2.4

bool profile_is_estimated(const struct profile *profile, unsigned metric)
{
    const struct profile_metric *of = &profile->metrics[metric];
    return profile_is_alloc(of) && of->period > 1 && !profile_is_error(of);
}

double sampling_error(double estimate, double variance)
{
    if (estimate <= 0 || variance <= 0)
        return 0;
    const double weight = variance / estimate; // of a sample
    return CERTAINTY * sqrt(variance + SAMPLES_MORE * weight * weight);
}

static unsigned find_alloc(const struct profile *profile, const char *name)
{
    unsigned i = 0;
    while (i < profile->metric_count &&
           !(profile_is_alloc(&profile->metrics[i]) && strcmp(profile->metrics[i].name, name) == 0))
        i++;
    return i;
}

// How much a sample stands for, where the metrics of all samples have these values. Blocks that are
// live or freed are as large as those that were allocated in the same places.
static double weight_by(const struct profile *profile, unsigned metric, const uint64_t *values)
{
    if (profile_has_unit(&profile->metrics[metric], "bytes"))
        return (double)profile->metrics[metric].period;
    const unsigned blocks = find_alloc(profile, "allocs"),
                   variance = find_alloc(profile, PROFILE_ALLOC_VARIANCE);
    if (blocks == profile->metric_count || variance == profile->metric_count || !values[blocks])
        return 0;
    return (double)values[variance] / (double)values[blocks];
}

double profile_sampling_error(const struct profile *profile, unsigned metric,
                              const uint64_t *values)
{
    if (!profile_is_estimated(profile, metric))
        return 0;
    const double value = (double)values[metric];
    return sampling_error(value, value * weight_by(profile, metric, values));
}

uint64_t profile_sum_metric(const struct profile *profile, unsigned metric)
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

double profile_sample_weight(const struct profile *profile, unsigned metric)
{
    uint64_t sums[PROFILE_MOST_METRICS] = {0};
    if (!profile_is_estimated(profile, metric))
        return 0;
    for (unsigned i = 0; i < profile->metric_count && i < PROFILE_MOST_METRICS; i++)
        sums[i] = profile_is_alloc(&profile->metrics[i]) ? profile_sum_metric(profile, i) : 0;
    return weight_by(profile, metric, sums);
}
