// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_EXPORT_H
#define CAIRN_EXPORT_EXPORT_H

// Profiles for other people's tools: one file per foreign format, all in one table.

#include "analyze/analysis.h"
#include "analyze/tree/calltree.h"
#include <stdio.h>

struct export_input {
    const struct analysis *analysis;
    const struct calltree *tree; // ordered; NULL if the format writes threads one by one
    unsigned metric;             // for a format that holds one; the most important one for others
    const unsigned *metrics;     // for a format that holds several: what was chosen
    unsigned metric_count;
    const struct build_options *build;
    bool fold_recursion;
};

enum export_detail {
    EXPORT_FUNCTIONS,
    EXPORT_LINES,  // sites and lines are apart
    EXPORT_PLACES, // these are numbers of places (see build_options)
};

struct export_format {
    const char *name;
    const char *summary; // the tools that read it
    enum export_detail detail;
    bool threads_apart;   // asks for export_thread()
    bool several_metrics; // writes all, unless one is chosen
    bool keeps_all;       // of the profile: nothing is to be chosen
    bool needs_timeline;
    bool binary;                                               // nothing for a terminal
    int (*write)(FILE *out, const struct export_input *input); // 0 or -errno
};

extern const struct export_format export_folded, export_pprof, export_callgrind, export_speedscope,
    export_otlp, export_chrome, export_firefox, export_dot, export_csv, export_cairn;

// Ends with NULL.
extern const struct export_format *const export_formats[];

// The unit of a metric as pprof's conventions have it.
const char *export_unit(const char *unit);

// The call tree that a format with this detail asks for; all chosen threads, ordered.
struct calltree *export_tree(const struct export_input *input, enum export_detail detail);

// That of one tree of the profile, not ordered; NULL: it was not chosen.
struct calltree *export_thread(const struct export_input *input, enum export_detail detail,
                               uint32_t tree);

#endif
