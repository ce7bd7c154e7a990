// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_DIFF_H
#define CAIRN_ANALYZE_DIFF_DIFF_H

// Two versions of a program side by side: one tree in which each context has its cost in every run
// of the old and of the new version.
//
//   old runs   new runs            context              old        new
//    a   b      c   d              main               1 · 1      1 · 1
//                                  main;parse         8 · 9      9 · 8
//                                  main;parse;find    5 · 5     11 · 12
//                                  main;check            -       3 · 3
//
// Contexts are the same by the names of the functions on the path, so that builds may differ.
// Modules are lined up as in module_match.h. In modules of which the builds differ, functions
// without a name are one. Threads and processes are merged, as in a report, and recursion is
// folded: a function is on a path once.
//
// The tree keeps what was recorded. diff_self() and diff_total() give what is compared: means over
// the runs of a side, where a merged recording of N runs counts as one, with an N-th of its values;
// if the diff is normalised, costs are scaled so that all runs cost the same.

#include "analyze/analysis.h"

enum diff_side { DIFF_OLD, DIFF_NEW, DIFF_SIDES };

#define DIFF_NONE UINT32_MAX
#define INTERRUPTS "<interrupts>"

// A metric that all runs have.
struct diff_metric {
    const char *name, *unit;
    bool exact;     // counted, not sampled, in all runs
    unsigned error; // the metric that bounds its errors; DIFF_NONE: it has none
};

struct diff_run {
    struct analysis *analysis;
    const char *path;
    enum diff_side side;
    unsigned *from; // by metric of the diff: that of the profile; DIFF_NONE: it has no such errors
    double *scale;  // by metric: factor of its values
    double *sample; // by metric: the cost that one sample stands for, scaled; 0: it is counted
    double *late;   // by metric: the cost of late samples beyond that, scaled
};

struct diff {
    struct diff_run *runs; // the old ones first
    unsigned run_count;
    unsigned side_runs[DIFF_SIDES];
    struct diff_metric *metrics; // those that can be compared, then the errors of these
    unsigned metric_count;
    unsigned compared; // how many of these can be compared
    unsigned metric;   // the one that is compared
    unsigned calls;    // exact numbers of calls; DIFF_NONE: not known
    bool normalized;
    struct profile *modules; // has the modules of all runs
    struct functions *functions;
    // The values of a node: metrics of the first run, metrics of the second, ...
    struct calltree *tree;
    uint32_t interrupts; // a node below the root: they come when they like, and are never judged
    unsigned rebuilt;    // modules of which the builds differ
};

// A profile that takes part. The analysis stays open as long as the diff.
struct diff_input {
    struct analysis *analysis;
    const char *path;
    enum diff_side side;
};

struct diff_options {
    const char *metric; // NULL: the first that all have
    bool normalize;
};

// At least one of each side, the old ones first. 0, or -1 and one line in *error, to be freed.
int diff_open(struct diff *diff, const struct diff_input *inputs, unsigned count,
              const struct diff_options *options, char **error);
void diff_close(struct diff *diff);

static inline unsigned diff_column(const struct diff *diff, unsigned run, unsigned metric)
{
    return run * diff->metric_count + metric;
}

// The mean over the runs of a side, of what an array of all columns has (scaled).
double diff_mean(const struct diff *diff, const uint64_t *columns, enum diff_side side,
                 unsigned metric);

// The same of a node.
double diff_self(const struct diff *diff, uint32_t node, enum diff_side side, unsigned metric);
double diff_total(const struct diff *diff, uint32_t node, enum diff_side side, unsigned metric);

#endif
