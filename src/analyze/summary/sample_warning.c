// SPDX-License-Identifier: MIT
#include "analyze/summary/sample_warning.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

#define CERTAINTY 1.96      // standard deviations: 19 times of 20
#define HIGH_RATE 10000     // samples a second that most programs do not feel
#define SECOND 1000000000.0 // ns

static double rate_of(const struct profile_metric *metric)
{
    if (metric->rate_requested > 0)
        return metric->rate_requested;
    return metric->period ? SECOND / (double)metric->period : 0;
}

// How to have more of them in a run of the same length.
static const char *what_takes_more(const struct profile_metric *metric)
{
    if (!profile_is_time(metric))
        return "record with a shorter period";
    return rate_of(metric) < HIGH_RATE ? "record with -F 10000" : NULL;
}

char *sample_warning(const struct profile_metric *metric, uint64_t samples)
{
    if (samples == 0 || samples >= FEW_SAMPLES || profile_is_counted(metric) ||
        !profile_is_cost(metric))
        return NULL;
    // Wilson's interval, which means something for one sample, too.
    const double off = 50 * CERTAINTY / sqrt((double)samples + CERTAINTY * CERTAINTY);
    const char *more = what_takes_more(metric);
    char *text;
    if (asprintf(&text,
                 "few samples: by chance, what is shown as 50 %% may be anything from %.0f to %.0f "
                 "%%; run longer%s add runs up ('cairn merge')%s%s",
                 50 - off, 50 + off, more ? "," : ", or", more ? ", or " : "",
                 more ? more : "") < 0)
        memory_checked(NULL);
    return text;
}
