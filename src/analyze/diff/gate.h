// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_GATE_H
#define CAIRN_ANALYZE_DIFF_GATE_H

// The paths on which a new version exceeds a base, and limits of its own.
//
// A limit names a path by some of its functions, in their order; others may lie between. It holds
// for the sum over all such paths, with what is called below. Of calls, it holds for those of the
// last function alone.
//
//   main;parse: 0 allocs       parse, with all that it calls
//   parse;*: 0 allocs          only what parse calls
//   parse;std::sort*: 2 calls  sorts on behalf of parse

#include "analyze/diff/diff_rows.h"

struct gate_limit {
    char *text; // the path as it was given; `names` are parts of it
    char **names;
    unsigned count;
    char *metric;
    double most;
};

// "PATH: N calls|allocs|bytes", or another metric by its name. 0, or -1 and one line in *error, to
// be freed.
int gate_limit_parse(struct gate_limit *limit, const char *text, char **error);
void gate_limit_free(struct gate_limit *limit);

// The metric of a limit; DIFF_NONE if the profiles do not have it.
unsigned gate_limit_metric(const struct diff *diff, const struct gate_limit *limit);
// Its value in the new version.
double gate_limit_value(const struct diff *diff, const struct gate_limit *limit, unsigned metric);
// The first of its names that no function of either version has: it may be misspelt. NULL: none.
const char *gate_limit_unknown(const struct diff *diff, const struct gate_limit *limit);

// Whether a metric is judged where none is asked for: costs and calls, but not what is left of
// memory at the end, or was at its peak, nor address space: an allocator maps it at the one call
// that finds no room, which one block less elsewhere makes another one.
bool gate_judges(const struct diff *diff, unsigned metric);

// Whether a row exceeds the base by more than so many per cent.
bool gate_exceeds(const struct diff_row *row, double percent);

#endif
