// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SHOW_H
#define CAIRN_ANALYZE_SHOW_H

// Trees and lists on paper: as text for people, as JSON for programs.

#include "analyze/calltree.h"
#include "analyze/flat.h"
#include "base/json.h"
#include "base/text.h"

struct show_options {
    unsigned metric;
    const char *unit;
    uint64_t whole;        // what 100 % is
    uint64_t least;        // what costs less is not shown
    double least_percent;  // the same, as it was said
    unsigned depth;        // levels that are shown; 0: all
    enum call_order order; // the cost that `least` looks at
    bool fold;             // a chain of calls without branches takes one row
    bool wide;             // nothing is cut
    bool narrow;           // for a terminal: long file names are cut
    bool upward;           // children are callers
    bool returns;          // the tracker counts them
    bool has_returns;      // and did: some row has some
    bool has_calls;        // a metric counts calls,
    unsigned calls;        // and that is its index
    const double *runs;    // per metric: recordings that were added up
    bool counts_calls;     // the chosen metric counts calls: it is no cost
    bool has_error;        // a metric bounds the error of the chosen one,
    unsigned error;        // and that is its index
    bool unicode;
    const struct profile *profile; // what kinds its metrics are of
};

// What was not shown.
struct show_hidden {
    uint64_t small_count, small_cost; // below `least`
    uint64_t deep_count, deep_cost;   // below `depth`
    uint64_t recursive;               // shown, but the same function is shown above it
};

// The tree must be ordered.
void show_tree(FILE *out, const struct text_style *style, const struct calltree *tree,
               const struct show_options *options, struct show_hidden *hidden);
void show_flat(FILE *out, const struct text_style *style, const struct flat *flat,
               const struct functions *functions, const struct show_options *options,
               struct show_hidden *hidden);

// The value of "nodes". Parents before children; ids count from 0 in the order of the output.
void show_tree_json(struct json *json, const struct calltree *tree,
                    const struct show_options *options);
void show_flat_json(struct json *json, const struct flat *flat, const struct functions *functions,
                    const struct show_options *options);

#endif
