// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_SPREAD_H
#define CAIRN_ANALYZE_REPORT_SPREAD_H

// How the cost of each row is spread over the profiles that were merged, the ranks.
//
// The least and the most of a row are not those of its parts: so the rows are made again, with a
// column for each rank, a number of ranks at a time.
//
//   values of a node    cpu  alloc │ rank 0  rank 1  ...  rank 63       then ranks 64 to 127, ...
//
// Columns are metrics to all that makes rows of nodes, which stay in the same order.

#include "profile/profile.h"

// Of a row: its total in each rank.
struct spread_row {
    uint64_t least, most;
    uint32_t rank; // that has the most: an index of the profile's
    double sum;
};

struct spread {
    const struct profile *profile;
    unsigned metric;
    uint32_t *ranks; // that have the metric
    uint32_t count;
    struct spread_row whole; // of the profile
    struct spread_row *rows;
    size_t row_count;
    // The ranks that have columns now:
    uint32_t first, columns;
    struct profile view;
};

// Ranks that have the metric: less than two have no spread. Rows come later.
struct spread *spread_new(const struct profile *profile, unsigned metric);
void spread_free(struct spread *spread);

// The profile with columns for the next ranks. NULL: all had one. It holds until the next call.
const struct profile *spread_next(struct spread *spread);

// The rows that were made of it: `total` has `metrics` values for each.
void spread_take(struct spread *spread, const uint64_t *total, size_t rows, unsigned metrics);

static inline double spread_mean(const struct spread *spread, const struct spread_row *row)
{
    return row->sum / spread->count;
}

// The most over the mean, less 1: 0 is balance; with n ranks, n - 1 is all in one of them.
static inline double spread_imbalance(const struct spread *spread, const struct spread_row *row)
{
    const double mean = spread_mean(spread, row);
    return mean > 0 ? (double)row->most / mean - 1 : 0;
}

#endif
