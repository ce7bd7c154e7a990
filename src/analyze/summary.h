// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_H
#define CAIRN_ANALYZE_SUMMARY_H

// How a recording went: what `cairn info` prints.

#include "analyze/analysis.h"
#include "base/text.h"
#include "profile/kind.h"
#include "profile/recorder.h"
#include "profile/totals.h"

void summary_print(FILE *out, const struct text_style *style, const struct analysis *analysis,
                   const struct profile_totals *totals);
void summary_print_json(FILE *out, const struct analysis *analysis,
                        const struct profile_totals *totals);

// What was allocated, with the alloc event: sums over all contexts.
struct summary_alloc {
    bool has[ALLOC_METRICS]; // trees that forget know the first alone
    uint64_t sum[ALLOC_METRICS];
};

// False: it is no such profile.
bool summary_alloc(const struct profile *profile, struct summary_alloc *alloc);

// Bytes of a node in the program's memory.
static inline unsigned summary_node_bytes(const struct profile *profile,
                                          const struct profile_kind *kind)
{
    if (kind->full && profile->metric_count && profile_is_alloc(&profile->metrics[0]))
        return 16 + 8 * LIVE_ALLOC_VALUES;
    // Links, and one value; an error; or an edge's weight and its places in three lists.
    return kind->bounded || kind->functions ? 56 : kind->hot ? 32 : 24;
}

// Something per sample; 0 without samples.
static inline double summary_per_sample(const struct profile_totals *totals, uint64_t sum)
{
    return totals->samples ? (double)sum / (double)totals->samples : 0;
}

#endif
