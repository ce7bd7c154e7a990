// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_REPORT_FRAME_H
#define CAIRN_ANALYZE_REPORT_REPORT_FRAME_H

// The text around the table of a report: the recording, the selection, and how to see more.

#include "analyze/report/report.h"
#include "analyze/report/report_metrics.h"
#include "analyze/report/show.h"
#include "analyze/views/hot.h"
#include "profile/queries/kind.h"

enum { REPORT_EXPLAINED = 3 };

struct report {
    FILE *out;
    const struct text_style *style;
    struct analysis *analysis;
    const struct report_options *options;
    struct report_metrics metrics;
    struct show_metric ratios[METRIC_RATIOS]; // that the profile has
    unsigned ratio_count;
    unsigned metric; // recorded: the first of those, or what that is made of
    bool folded;     // recursion, whether that was asked for or not
    uint64_t focus;  // --min is a share of it: the cost of the part in focus
    enum call_order order;
    double *runs;          // per metric: recordings that were added up
    uint64_t cut;          // paths of callers that were not followed to their end
    uint64_t *tree_wholes; // per tree of the profile: its cost
    uint64_t whole;        // cost of the chosen threads and processes
    uint64_t part;         // of that, the part that the refinement left
    struct profile_kind kind;
    double phi;         // share from which on contexts are shown; 0: all
    struct hot_cut hot; // how many these are
    uint64_t outside;   // of `whole`: the cost of left out contexts
    uint64_t made_up;   // the sum of contexts exceeds the cost by this: their errors
    uint64_t purged;    // of `whole`: the cost that trees have dropped
    uint64_t detached;  // the cost of cut paths
    uint64_t explained[REPORT_EXPLAINED]; // the cost of these rows
    struct spread *spread;                // over ranks; NULL: it was not asked for
};

// Counts over the chosen threads and processes.
struct report_sums {
    uint64_t samples, hook_ns, threads, processes;
    uint64_t verdicts[VERDICT_COUNT];
};

struct report_sums report_sum_up(const struct report *report);

// Rows that stand for no function: their meaning is below the table.
extern const struct report_explained {
    const char *name, *meaning;
} report_explained[REPORT_EXPLAINED];

// Advice how to record more samples of a metric; ends its line.
const char *report_sees_more(const struct profile_metric *metric);

// Prints what a function says, wrapped to the width of the report.
void report_put_wrapped(const struct report *report, enum text_tone tone,
                        void (*say)(const struct report *));

// Above the table (report_head.c), and below it (report_foot.c).
void report_text_head(const struct report *report);
void report_json_head(const struct report *report, struct json *json);
void report_text_foot(const struct report *report, const struct show_options *show,
                      const struct show_hidden *hidden);

// The threads by name and the processes by program, with their cost (report_names.c).
void report_text_names(const struct report *report);
void report_json_names(const struct report *report, struct json *json);

#endif
