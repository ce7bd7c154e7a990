// SPDX-License-Identifier: MIT
#include "profile/queries/kind.h"
#include "live/choices.h"
#include <stdio.h>

static void take_hot(struct profile_kind *kind, const char *word)
{
    double phi = 0, epsilon = 0;
    char miner[16] = "";
    kind->hot = true;
    sscanf(word, "hot:%lf,%lf,%15[a-z-]", &phi, &epsilon, miner);
    const int named = live_choice_of(LIVE_MINERS, miner, strlen(miner));
    if (phi > kind->phi)
        kind->phi = phi;
    if (epsilon > kind->epsilon)
        kind->epsilon = epsilon;
    kind->miner = named < 0 ? LIVE_MINER_SPACE_SAVING : (enum live_miner)named;
}

static void take_word(struct profile_kind *kind, const char *word)
{
    if (strncmp(word, "hot:", 4) == 0)
        take_hot(kind, word);
    else if (strncmp(word, "functions", 9) == 0)
        kind->functions = true;
    else if (sscanf(word, "bounded:%u", &kind->depth) == 1)
        kind->bounded = true;
    else
        kind->full = true;
}

struct profile_kind profile_kind(const struct profile *profile)
{
    struct profile_kind kind = {0};
    for (const char *word = profile->tree_kind; word && *word;) {
        take_word(&kind, word);
        word = strchr(word, '+');
        if (word)
            word++;
    }
    // A damaged file may contain anything.
    if (!(kind.phi > 0 && kind.phi < 1))
        kind.phi = 0;
    if (!(kind.epsilon > 0 && kind.epsilon < 1))
        kind.epsilon = 0;
    for (unsigned i = 0; i < profile->metric_count; i++)
        kind.has_errors |= profile_has_unit(&profile->metrics[i], PROFILE_ERROR);
    return kind;
}

unsigned profile_error_of(const struct profile *profile, unsigned metric)
{
    const char *name = profile->metrics[metric].name;
    const size_t length = name ? strlen(name) : 0;
    unsigned i = 0;
    while (i < profile->metric_count &&
           !(name && profile_is_error(&profile->metrics[i]) && profile->metrics[i].name &&
             strncmp(profile->metrics[i].name, name, length) == 0 &&
             strcmp(profile->metrics[i].name + length, " error") == 0))
        i++;
    return i;
}

unsigned profile_times(const struct profile *profile)
{
    unsigned times = 0;
    for (unsigned i = 0; i < profile->metric_count; i++)
        times += profile_is_time(&profile->metrics[i]);
    return times;
}

const struct profile_metric *profile_samples_caused(const struct profile *profile)
{
    static const char *const order[] = {"offcpu", "alloc", "io", "lock"};
    for (unsigned m = 0; m < profile->metric_count && profile_times(profile) == 0; m++)
        if (profile_is_counter(&profile->metrics[m]))
            return &profile->metrics[m];
    for (unsigned i = 0; i < sizeof order / sizeof *order && profile_times(profile) == 0; i++)
        for (unsigned m = 0; m < profile->metric_count; m++)
            if (profile_is_caused(&profile->metrics[m]) &&
                strcmp(profile->metrics[m].name, order[i]) == 0)
                return &profile->metrics[m];
    return NULL;
}

const char *profile_sample_word(const struct profile_metric *metric)
{
    if (profile_is_offcpu(metric) || !profile_is_caused(metric))
        return "sample";
    return !profile_is_alloc(metric) ? "operation"
           : metric->period > 1      ? "sampled allocation"
                                     : "allocation";
}
