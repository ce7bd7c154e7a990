// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_H
#define CAIRN_ANALYZE_SUMMARY_H

// How a recording went: all its counters, summed.

#include "analyze/analysis.h"
#include "base/json.h"
#include "base/text.h"

struct summary {
    struct live_stats stats; // sums; the histogram too
    uint64_t walks, truncated;
    double complete_percent;
    uint64_t threads, nodes, tree_bytes, agent_peak_bytes;
    double handler_mean, handler_p50, handler_p99;
    double frames_stack, frames_walked; // per sample
    double rate;                        // samples a second of what is measured
};

void summary_of(const struct profile *profile, struct summary *summary);

void summary_print(FILE *out, const struct text_style *style, const struct analysis *analysis,
                   const struct summary *summary);
void summary_print_json(FILE *out, const struct analysis *analysis, const struct summary *summary);

#endif
