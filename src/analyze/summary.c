// SPDX-License-Identifier: MIT

#include "analyze/summary.h"

static void add_stats(struct live_stats *sum, const struct live_stats *stats)
{
    sum->samples += stats->samples;
    sum->lost += stats->lost;
    sum->unplaced += stats->unplaced;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        sum->verdicts[i] += stats->verdicts[i];
    sum->frames_stack += stats->frames_stack;
    sum->frames_walked += stats->frames_walked;
    sum->handler_ns += stats->handler_ns;
    sum->cost_ns += stats->cost_ns;
    sum->residue_ns += stats->residue_ns;
}

// The time below which that share of the handler runs stayed: in the middle of its bucket.
static double percentile(const uint64_t histogram[LIVE_HANDLER_BUCKETS], double share)
{
    uint64_t all = 0, seen = 0;
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++)
        all += histogram[i];
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS && all > 0; i++) {
        seen += histogram[i];
        if ((double)seen >= share * (double)all)
            return ((double)live_bucket_floor(i) + (double)live_bucket_floor(i + 1)) / 2;
    }
    return 0;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

void summary_of(const struct profile *profile, struct summary *summary)
{
    *summary = (struct summary){0};
    struct live_stats *stats = &summary->stats;
    uint64_t histogram[LIVE_HANDLER_BUCKETS] = {0}; // wider than that of one tree
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        add_stats(stats, &tree->stats);
        for (unsigned b = 0; b < LIVE_HANDLER_BUCKETS; b++)
            histogram[b] += tree->stats.handler_histogram[b];
        summary->threads += tree->threads;
        summary->nodes += tree->count;
    }
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        uint64_t bytes = process->tree_bytes + process->agent_bytes;
        summary->tree_bytes += process->tree_bytes;
        if (bytes > summary->agent_peak_bytes)
            summary->agent_peak_bytes = bytes;
    }
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        summary->walks += stats->verdicts[i];
    uint64_t whole = stats->verdicts[VERDICT_COMPLETE] + stats->verdicts[VERDICT_MARKER];
    summary->truncated = summary->walks - whole;
    summary->complete_percent =
        summary->walks ? 100 * ratio((double)whole, (double)summary->walks) : 100;
    double samples = (double)stats->samples;
    summary->handler_mean = ratio((double)stats->handler_ns, samples);
    summary->handler_p50 = percentile(histogram, 0.50);
    summary->handler_p99 = percentile(histogram, 0.99);
    summary->frames_stack = ratio((double)stats->frames_stack, samples);
    summary->frames_walked = ratio((double)stats->frames_walked, samples);
    // cost_ns is CPU time or wall time of the threads, whichever was sampled.
    summary->rate = ratio(samples, (double)stats->cost_ns / 1e9);
}
