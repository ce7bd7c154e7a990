// SPDX-License-Identifier: MIT
#include "profile/kind.h"
#include <stdio.h>

static void take_hot(struct profile_kind *kind, const char *word)
{
    double phi = 0, epsilon = 0;
    char miner[sizeof kind->miner] = "space-saving";
    kind->hot = true;
    sscanf(word, "hot:%lf,%lf,%15[a-z-]", &phi, &epsilon, miner);
    if (phi > kind->phi)
        kind->phi = phi;
    if (epsilon > kind->epsilon)
        kind->epsilon = epsilon;
    memcpy(kind->miner, miner, sizeof miner);
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
        kind.has_errors |= profile_is_error(&profile->metrics[i]);
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

bool profile_samples_blocks(const struct profile *profile)
{
    bool blocks = false;
    for (unsigned i = 0; i < profile->metric_count; i++)
        blocks |= profile_is_alloc(&profile->metrics[i]);
    return blocks && profile_times(profile) == 0;
}
