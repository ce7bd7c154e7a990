// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_SUMMARY_H
#define CAIRN_ANALYZE_SUMMARY_SUMMARY_H

// How a recording went: what `cairn info` prints.

#include "analyze/analysis.h"
#include "base/text/text.h"
#include "profile/kind.h"
#include "profile/recorder/recorder.h"
#include "profile/totals.h"

void summary_print(FILE *out, const struct text_style *style, const struct analysis *analysis,
                   const struct profile_totals *totals);
void summary_print_json(FILE *out, const struct analysis *analysis,
                        const struct profile_totals *totals);

// Programs, processes and threads, where there are several.
void summary_print_owners(FILE *out, const struct text_style *style,
                          const struct analysis *analysis);

// Allocations, with the alloc event: sums over all contexts.
struct summary_alloc {
    bool has[ALLOC_METRICS]; // trees that forget know the first alone
    uint64_t sum[ALLOC_METRICS];
};

// False: it is no such profile.
bool summary_alloc(const struct profile *profile, struct summary_alloc *alloc);

// Samples a second of what a metric counts; 0 where every event was counted.
double summary_rate(const struct profile *profile, unsigned metric,
                    const struct profile_totals *totals);

// Bytes of a node in the program's memory.
static inline unsigned summary_node_bytes(const struct profile *profile,
                                          const struct profile_kind *kind)
{
    struct summary_alloc alloc;
    const unsigned times = profile_times(profile);
    if (kind->full && summary_alloc(profile, &alloc))
        return 16 + 8 * (LIVE_ALLOC_VALUES + times);
    if (kind->full && times > 1 && !kind->has_errors)
        return 16 + 8 * times;
    // Links, and one value; an error; or an edge's weight and its places in three lists.
    return kind->bounded || kind->functions ? 56 : kind->hot ? 32 : 24;
}

// Something per sample; 0 without samples. Where blocks are counted beside, they are walked, too.
static inline double summary_per_sample(const struct profile_totals *totals, uint64_t sum)
{
    const uint64_t walks = totals_walks(totals);
    const uint64_t taken = walks > totals->samples ? walks : totals->samples;
    return taken ? (double)sum / (double)taken : 0;
}

#endif
