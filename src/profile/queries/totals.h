// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_TOTALS_H
#define CAIRN_PROFILE_QUERIES_TOTALS_H

// Sums over all trees of a profile, for `cairn info` and the summary of `cairn record`.

#include "profile/profile.h"

struct profile_totals {
    uint64_t samples, lost, unplaced;
    uint64_t verdicts[VERDICT_COUNT];
    uint64_t frames_stack, frames_walked;
    uint64_t handler_ns, cost_ns, residue_ns, purged, waits, sparse, switches;
    uint64_t hook_samples, hook_ns; // taken out: in no other number here
    uint64_t handler_histogram[LIVE_HANDLER_BUCKETS];
    uint64_t nodes;
    uint64_t tree_bytes;        // of all processes together
    uint64_t agent_bytes;       // of the process that needed most, its slice included
    struct live_encode encode;  // of all processes together; max_id is the largest
    struct profile_alloc alloc; // of all processes together; peak is the largest
    // Contexts that programs asked for: found by new numbers, by walks, not found; and the bytes
    // that decode them.
    uint64_t asked_numbers, asked_walked, asked_unknown, asked_bytes;
    uint64_t charges, charges_lost; // of the timeline
    uint64_t threads;               // that ever ran
    unsigned processes;
};

void profile_sum(const struct profile *profile, struct profile_totals *totals);

// Adds the stats of one tree to those of another.
void stats_add(struct live_stats *into, const struct live_stats *stats);
// The same for the numbers of hot trees: contexts that one of them may have missed, both may.
void hot_add(struct profile_hot *into, const struct profile_hot *hot);

uint64_t totals_walks(const struct profile_totals *totals);    // all that were taken
uint64_t totals_complete(const struct profile_totals *totals); // walks that reached root or marker
double totals_complete_percent(const struct profile_totals *totals); // 100 if there were none
double totals_guessed_percent(const struct profile_totals *totals);
uint64_t totals_truncated(const struct profile_totals *totals); // neither complete nor guessed

// Handler time below which the given share (0..1) of samples lies, to a quarter of a power of two.
uint64_t totals_handler_percentile(const struct profile_totals *totals, double share);
double totals_handler_mean(const struct profile_totals *totals);

// Samples per second of the metered time (CPU seconds, for the cpu event).
double totals_rate(const struct profile_totals *totals);

#endif
