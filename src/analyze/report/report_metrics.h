// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_REPORT_METRICS_H
#define CAIRN_ANALYZE_REPORT_REPORT_METRICS_H

// Which metrics a report shows side by side: those that were recorded, and those that are made of
// them.

#include "analyze/analysis.h"
#include "analyze/metric_ratios.h"
#include "analyze/report/show.h"
#include "analyze/views/flat.h"

struct report_metrics {
    struct show_metric chosen[SHOW_METRICS]; // rows are sorted by the first
    unsigned count;
    unsigned recorded;  // the first; if that is `waiting`: wall
    bool waiting;       // every node has it, as its last value,
    unsigned wall, cpu; // made of these
};

// By a list of names, "all", or NULL for the first of the profile. 0, or -1 and one line in *error.
int report_choose_metrics(struct report_metrics *metrics, const struct analysis *analysis,
                          const char *names, char **error);

// Adds `waiting` to what nodes have, chosen or not, where a profile has what it is made of.
void report_want_waiting(struct report_metrics *metrics, const struct profile *profile);

// All ratios that a profile has. Returns how many.
unsigned report_ratios(const struct profile *profile, struct show_metric ratios[METRIC_RATIOS]);

// Adds a value for `waiting` to every node, or computes it anew after nodes were merged. A list has
// at most what the tree has that it was made of.
void report_add_waiting(const struct report_metrics *metrics, struct calltree *tree);
void report_renew_waiting(const struct report_metrics *metrics, struct calltree *tree);
void report_renew_flat(const struct report_metrics *metrics, struct flat *flat,
                       const struct calltree *tree);

#endif
