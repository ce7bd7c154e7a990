// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_NOISE_H
#define CAIRN_ANALYZE_DIFF_NOISE_H

// Whether a difference is more than chance.
//
// A sampled cost varies for two reasons. Which samples hit it is chance: with n samples, the
// variance is that of a Poisson number, n. And the same code does not cost the same in each run:
// frequency, caches, addresses and other programs change by a few per cent what everything costs,
// however many samples there are. This part grows with the cost, and is called the spread:
//
//   variance of a cost = cost * cost of a sample + (spread * cost)²
//
// With one run a side the spread is assumed. With more, the runs themselves say how large it is
// (over all contexts together), and how far each context varies: Welch's t-test, in which the
// variance of so few runs is moderated by the one above, which counts as PRIOR_RUNS of them.
//
// A sample that comes late stands for all time since the one before: where the processor of a
// virtual machine is taken away, a single one weighs as much as dozens. Any context may have had
// all that is late in a run, so a larger cost is judged without it.
//
// Counts are exact: they differ, or they do not. Where repetitions of a side have different counts,
// Welch's test judges them too. Bounds of errors (hot trees) are taken off a difference before it
// is judged.
//
// Many rows are judged at once, and sums of rows overlap. Bonferroni's correction holds whatever
// depends on what: at 99 %, a program that has not changed has any row named in one of a hundred
// comparisons. It counts only rows that have enough samples to be named at all (Tarone), as very
// many contexts of a tree have not.

#include <stdbool.h>
#include <stddef.h>

enum { NOISE_PRIOR_RUNS = 4 };

// One side of a row: of each run, its value, and of all, what else is known.
struct noise_side {
    const double *values;
    unsigned runs;
    double sample; // the cost of one sample, mean over the runs; 0: counted
    double error;  // mean bound of errors
    double late;   // mean cost of late samples beyond what a sample stands for
};

struct noise_model {
    double spread; // relative standard deviation of a cost from run to run
};

// The probability that sides which are alike differ so much, both ways.
double noise_probability(const struct noise_model *model, const struct noise_side sides[2]);

// The spread that runs show. One call for each context of some weight; then the model, of which
// `assumed` is the spread without repetitions.
struct noise_spread {
    double sum, weight; // of squares
    unsigned freedom;
};
void noise_spread_add(struct noise_spread *spread, const struct noise_side sides[2]);
struct noise_model noise_model(const struct noise_spread *spread, double assumed);

// Of how many of the rows the change could be named at all, at a chance `alpha` for all: those with
// at least so many samples on both sides together. Sorts these numbers.
size_t noise_testable(double *samples, size_t count, double alpha);

#endif
