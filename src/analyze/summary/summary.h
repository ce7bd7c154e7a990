// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_SUMMARY_H
#define CAIRN_ANALYZE_SUMMARY_SUMMARY_H

// How a recording went: what `cairn info` prints.

#include "analyze/analysis.h"
#include "base/text/text.h"
#include "profile/queries/kind.h"
#include "profile/queries/totals.h"
#include "profile/recorder/recorder.h"

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
    uint64_t period;             // of samples, in bytes; 0: every block was counted
    double error[ALLOC_METRICS]; // of sums, 19 times of 20
};

// False: it is no such profile.
bool summary_alloc(const struct profile *profile, struct summary_alloc *alloc);

// I/O, with the io event: sums over all contexts.
struct summary_io {
    bool has[LIVE_IO_VALUES]; // trees that forget know the first alone
    uint64_t sum[LIVE_IO_VALUES];
};

// False: it is no such profile.
bool summary_io(const struct profile *profile, struct summary_io *io);

// Waiting, with the lock event: the same.
struct summary_lock {
    bool has[LIVE_LOCK_VALUES];
    uint64_t sum[LIVE_LOCK_VALUES];
};

bool summary_lock(const struct profile *profile, struct summary_lock *lock);

// Whether the metric has the name of its event: "alloc", "io".
bool summary_names_event(const struct profile_metric *metric);

// Samples a second of what a metric counts; 0 where every event was counted.
double summary_rate(const struct profile *profile, unsigned metric,
                    const struct profile_totals *totals);

// Bytes of a node in the program's memory.
static inline unsigned summary_node_bytes(const struct profile *profile,
                                          const struct profile_kind *kind)
{
    struct summary_alloc alloc;
    struct summary_io io;
    struct summary_lock lock;
    const unsigned times = profile_times(profile);
    const bool allocates = summary_alloc(profile, &alloc);
    // Older profiles have fewer.
    const unsigned values = (alloc.period                 ? LIVE_ALLOC_SAMPLED_VALUES
                             : alloc.has[ALLOC_TEMPORARY] ? LIVE_ALLOC_VALUES
                                                          : LIVE_TEMPORARY) -
                            !alloc.has[ALLOC_LIVE_AGE];
    const unsigned caused = (allocates ? values : 0) +
                            (summary_io(profile, &io) ? LIVE_IO_VALUES : 0) +
                            (summary_lock(profile, &lock) ? LIVE_LOCK_VALUES : 0);
    if (kind->full && caused)
        return 16 + 8 * (caused + times);
    if (kind->full && times > 1 && !kind->has_errors)
        return 16 + 8 * times;
    // Links, and one value; an error; or an edge's weight and its place in the list by age.
    return kind->bounded || kind->functions ? 40 : kind->hot ? 32 : 24;
}

// Something per sample; 0 without samples. Where blocks are counted beside, they are walked, too.
static inline double summary_per_sample(const struct profile_totals *totals, uint64_t sum)
{
    const uint64_t walks = totals_walks(totals);
    const uint64_t taken = walks > totals->samples ? walks : totals->samples;
    return taken ? (double)sum / (double)taken : 0;
}

#endif
