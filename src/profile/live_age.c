// SPDX-License-Identifier: MIT
#include "profile/live_age.h"
#include "event/birth.h"
#include <stdlib.h>

static unsigned find_live(const struct profile *profile)
{
    unsigned i = 0;
    while (i < profile->metric_count && !(profile_is_alloc(&profile->metrics[i]) &&
                                          strcmp(profile->metrics[i].name, "live") == 0))
        i++;
    return i;
}

// A program that runs may have been read between a block and its birth, and a file may be damaged:
// no age is negative, none is longer than the recording.
static uint64_t age(uint64_t live, uint64_t births, uint64_t seconds)
{
    const uint64_t oldest = live * seconds, ages = oldest - births;
    return ages <= oldest ? ages : 0;
}

static void convert(struct profile *profile, unsigned metric)
{
    const uint64_t seconds = birth_clock(profile->duration_ns);
    const unsigned live = find_live(profile);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        for (uint32_t i = 0; i < tree->count; i++) {
            uint64_t *values = &tree->values[(size_t)i * profile->metric_count];
            values[metric] =
                live < profile->metric_count ? age(values[live], values[metric], seconds) : 0;
        }
    }
}

void profile_find_ages(struct profile *profile)
{
    for (unsigned i = 0; i < profile->metric_count; i++) {
        char *unit =
            profile_has_unit(&profile->metrics[i], PROFILE_BIRTHS) ? strdup(PROFILE_AGES) : NULL;
        if (!unit)
            continue;
        convert(profile, i);
        free(profile->metrics[i].unit);
        profile->metrics[i].unit = unit;
    }
}
