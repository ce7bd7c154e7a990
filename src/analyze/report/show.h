// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_SHOW_H
#define CAIRN_ANALYZE_REPORT_SHOW_H

// Trees and lists on paper: as text for people, as JSON for programs.

#include "analyze/metric_ratios.h"
#include "analyze/report/spread.h"
#include "analyze/tree/calltree.h"
#include "analyze/tree/name_sums.h"
#include "analyze/views/flat.h"
#include "base/text/json.h"
#include "base/text/text.h"

#define SHOW_METRICS (PROFILE_MOST_METRICS + 1 + METRIC_RATIOS) // side by side: all, with `waiting`

struct show_metric {
    const char *name, *unit;
    unsigned index; // of the values of a node
    bool is_ratio;  // divided by those of another index; never the first of several
    unsigned over;
};

struct show_options {
    struct show_metric metrics[SHOW_METRICS]; // side by side; rows are sorted by the first
    unsigned metric_count;
    unsigned metric; // the first
    const char *unit;
    uint64_t whole;        // 100 %
    uint64_t least_whole;  // `least_percent` is a share of it: the part in focus
    uint64_t least;        // rows with a lower cost are not shown
    double least_percent;  // the same, as it was said
    bool may_raise;        // it was not said: a report of text raises it to fit two screens
    unsigned depth;        // levels that are shown; 0: all
    enum call_order order; // the cost that `least` looks at
    const char *head;      // of the names in a tree
    bool fold;             // a chain of calls without branches takes one row
    bool wide;             // nothing is cut
    bool brief;            // for a terminal: start-up code and long names are cut
    bool upward;           // children are callers
    bool to_roots;         // of them, all are to be seen: a long chain takes several lines
    bool returns;          // the tracker counts them
    bool has_returns;      // and did: some row has some
    bool has_calls;        // a metric counts calls,
    unsigned calls;        // and that is its index
    const double *runs;    // per metric: recordings that were added up
    const struct show_metric *ratios; // all that the profile has, for JSON
    unsigned ratio_count;
    bool counts_calls; // the chosen metric counts calls: it is no cost
    bool has_error;    // a metric bounds the error of the chosen one,
    unsigned error;    // and that is its index
    bool estimated;    // the chosen metric is made of sampled blocks
    bool unicode;
    const struct profile *profile;  // the kinds of its metrics
    const struct spread *spread;    // of each node or row over ranks; NULL: it was not asked for
    const struct name_sums *owners; // of a list by thread or program: how many each row stands for
};

// The cost of rows that are not shown, and columns that are.
struct show_hidden {
    uint64_t small_count, small_cost; // below `least`
    uint64_t deep_count, deep_cost;   // below `depth`
    uint64_t going_on;                // chains of callers that end in a row above
    uint64_t recursive;               // shown, but the same function is shown above it
    double least_percent;             // `least`, which may have been raised
    double library_percent;           // the same for functions that libraries call within
    bool returns;                     // shown: their column may have given way
    unsigned metrics;                 // shown side by side: others had no room
};

static inline uint64_t show_least(const struct show_options *options, double percent)
{
    return (uint64_t)(percent / 100 * (double)options->least_whole + 0.999);
}

struct row_plan;

// The rows of a tree that were planned.
void show_tree(FILE *out, const struct text_style *style, const struct calltree *tree,
               struct row_plan *plan, const struct show_options *options);
// Returns what it left out.
struct show_hidden show_flat(FILE *out, const struct text_style *style, const struct flat *flat,
                             const struct functions *functions, const struct show_options *options);

// The value of "nodes". Parents before children; ids count from 0 in the order of the output.
void show_tree_json(struct json *json, const struct calltree *tree,
                    const struct show_options *options);
void show_flat_json(struct json *json, const struct flat *flat, const struct functions *functions,
                    const struct show_options *options);

#endif
