// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_DIFF_ROWS_H
#define CAIRN_ANALYZE_DIFF_DIFF_ROWS_H

// The changes of a diff, row by row, the culprits first.
//
// Rows divide the tree: each context belongs to one, so that the changes of all rows add up to the
// change of the whole. A row is named by the outermost of its contexts, the one that explains it:
//
// - The deepest context that changed significantly in itself is a row. Changes
//   below it or beside it that are too small to be significant alone go up to the caller, until a
//   sum is significant.
// - Where calls were counted: contexts that are called more often because their caller is belong to
//   the row of that caller, unless each of their own calls became costlier. The same goes for what is
//   below a context that only one side has.
// - Each context that is left is a row of its own, and noise.
//
// The change of a context is split by its calls and its own cost:
//
//   called more often     (new calls - old calls) * old cost per call
//   each call costlier      (new cost per call - old cost per call) * new calls
//
// These add up to the change. A context whose calls were not counted is judged by those of the next
// caller whose were. All cost of a context that only one side has is a matter of calls. As calls
// are exact, a change that they explain is named even where too few samples show it.

#include "analyze/diff/diff.h"

enum diff_by { DIFF_BY_CONTEXT, DIFF_BY_FUNCTION };

enum diff_presence { DIFF_BOTH, DIFF_IS_NEW, DIFF_IS_GONE };

struct diff_row {
    uint32_t node;     // its outermost context; by function: the one that changed most
    uint32_t contexts; // that belong to it
    double cost[DIFF_SIDES];
    double by_calls, by_price; // the parts of the change; 0 without calls
    double calls[DIFF_SIDES];  // of `node`; by function: of all its contexts
    double probability;        // that it is chance, without correction
    bool significant;
    enum diff_presence presence;
};

struct diff_rows {
    enum diff_by by;
    struct diff_row *rows; // the largest change first
    size_t count, significant;
    bool *named;    // by context: by node, whether it belongs to a significant row; else NULL
    bool has_calls; // changes are split
    double total[DIFF_SIDES];
    bool total_significant;
    double alpha;  // significant rows are less probable than this
    size_t tests;  // rows that could have been named
    double spread; // of costs from run to run
};

struct diff_judgement {
    enum diff_by by;
    double confidence; // per cent
    double spread;     // assumed, where there is one run a side
};

struct diff_rows diff_rows(const struct diff *diff, const struct diff_judgement *judgement);
void diff_rows_free(struct diff_rows *rows);

static inline double diff_row_change(const struct diff_row *row)
{
    return row->cost[DIFF_NEW] - row->cost[DIFF_OLD];
}

#endif
