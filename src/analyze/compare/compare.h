// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_COMPARE_COMPARE_H
#define CAIRN_ANALYZE_COMPARE_COMPARE_H

// How far a calling context tree is from another one that is taken for the truth.
//
// Both trees lie in one: a context is there once, and says which of the two has it and with what
// weight. A context is its edge: the call from its parent, so its weight is what ACCT calls the
// weight of an edge (never that of what is below it).
//
//             main                    context   exact  approx
//            ╱    ╲                   main          1       0   known to both
//           b      d                  main>b       10       9
//           │                         main>b>c  1,000   1,040
//           c                         main>d        2       -   not in the approximation: uncovered

#include "analyze/index/child_index.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum compare_side { EXACT, APPROX };

struct compare_function {
    char *name;
    uint32_t module; // of the common modules
};

struct compare_context {
    uint32_t parent;   // 0 is the root, a context without an edge; the root's is itself
    uint32_t site;     // where the caller calls; equal numbers are equal places, 0 is no place
    uint32_t function; // in compare_tree.functions
    bool has[2];       // by side
    uint64_t weight[2];
};

struct compare_tree {
    struct compare_context *contexts; // parents before children
    struct compare_function *functions;
    size_t count, capacity;
    size_t function_count, function_capacity;
    struct child_index by_edge;
    struct hash_index by_name;
    // By how much the sum of a side's contexts exceeds what was charged: their errors add up.
    // Negative: it is less, as some are left out.
    int64_t made_up[2];
};

struct compare_tree *compare_tree_new(void); // with its root, and function 0: no function
void compare_tree_free(struct compare_tree *tree);
uint32_t compare_function(struct compare_tree *tree, const char *name, uint32_t module);
// The child of a context, made if it is new. `side` has it from now on.
uint32_t compare_child(struct compare_tree *tree, uint32_t parent, uint32_t site, uint32_t function,
                       enum compare_side side);

// Leaves of a side the contexts that have at least this weight, and their callers. How many with
// weight it took away; they stay in the total.
size_t compare_prune(struct compare_tree *tree, enum compare_side side, double least);

#define COMPARE_THRESHOLDS 16 // at most

struct compare_options {
    unsigned threshold_count;
    double thresholds[COMPARE_THRESHOLDS]; // of hot edges: share of the hottest edge's weight
    double phi;                            // of hot contexts: share of all weight
    unsigned edges;                        // the hottest ones that are correlated and shown
    double scale; // factor of the approximation's weights; 0: so that totals agree
};

struct compare_share {
    uint32_t function;
    double percent[2]; // of all weight
};

// Of weights, as per cent of the true one.
struct compare_error {
    double max, avg;
    uint64_t contexts; // how many these are
};

// Weights of the approximation are scaled; those of the root (cost outside of all known functions)
// count nowhere. Only contexts with weight in the exact tree can be missed.
struct compare_result {
    uint64_t total[2];    // all costs
    uint64_t sum[2];      // of all weights: more than that, if counters have errors
    uint64_t outside[2];  // the root's
    uint64_t contexts[2]; // that have weight
    uint64_t common;      // of the exact ones, how many the approximation has
    double scale;

    double overlap;          // share of the exact weight in contexts that the approximation has
    double weighted_overlap; // the same, but a context counts only as far as its share agrees
    double coverage[COMPARE_THRESHOLDS]; // of edges as hot as the threshold, 0..1
    uint64_t covered[COMPARE_THRESHOLDS], hot_edges[COMPARE_THRESHOLDS]; // in numbers
    uint64_t uncovered;                  // contexts that the approximation has not
    double uncovered_max, uncovered_avg; // their weight, as per cent of the hottest
    uint64_t hot[2];                     // contexts of at least phi of all weight
    uint64_t false_positives, false_negatives;
    struct compare_error error;       // of contexts that are hot
    struct compare_error false_error; // of those that are only taken to be
    double pearson, spearman;         // NaN where there is nothing to correlate
    double distortion; // sum over functions of the difference of their shares, per cent

    uint32_t *top; // contexts: the hottest edges of the exact tree
    unsigned top_count;
    uint64_t hottest[2];
    struct compare_share *functions; // the most distorted first
    size_t function_count;
};

void compare_measure(const struct compare_tree *tree, const struct compare_options *options,
                     struct compare_result *result);
void compare_result_free(struct compare_result *result);

// The weight of a context in the unit of the exact tree.
static inline double compare_weight(const struct compare_context *context, enum compare_side side,
                                    const struct compare_result *result)
{
    return (double)context->weight[side] * (side == APPROX ? result->scale : 1);
}

#endif
