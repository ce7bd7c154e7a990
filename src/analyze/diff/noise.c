// SPDX-License-Identifier: MIT

#include "analyze/diff/noise.h"
#include <math.h>
#include <stdlib.h>

static double mean_of(const struct noise_side *side)
{
    double sum = 0;
    for (unsigned i = 0; i < side->runs; i++)
        sum += side->values[i];
    return sum / side->runs;
}

// The sum of squared distances from the mean.
static double squares_of(const struct noise_side *side)
{
    const double mean = mean_of(side);
    double sum = 0;
    for (unsigned i = 0; i < side->runs; i++)
        sum += (side->values[i] - mean) * (side->values[i] - mean);
    return sum;
}

// The continued fraction of the incomplete beta function (Lentz).
static double beta_fraction(double a, double b, double x)
{
    const double least = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < least ? least : d);
    double result = d;
    for (int m = 1; m <= 500; m++) {
        double step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        for (int half = 0; half < 2; half++) {
            d = 1 + step * d;
            c = 1 + step / c;
            d = 1 / (fabs(d) < least ? least : d);
            c = fabs(c) < least ? least : c;
            result *= c * d;
            if (half == 1 && fabs(c * d - 1) < 1e-14)
                return result;
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        }
    }
    return result;
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// Student's distribution, both tails; without limit of freedom, the normal one.
static double two_tails(double t, double freedom)
{
    if (freedom > 1e6)
        return erfc(fabs(t) / sqrt(2));
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

// The variance of a run of one side, where all runs are alike and have that mean.
static double expected_variance(const struct noise_model *model, const struct noise_side *side,
                                double mean)
{
    return mean * side->sample + model->spread * model->spread * mean * mean;
}

static double judge_counts(const struct noise_side sides[2], double difference)
{
    double variance[2], freedom = 0, sum = 0;
    for (unsigned s = 0; s < 2; s++) {
        const double runs = sides[s].runs;
        variance[s] = runs > 1 ? squares_of(&sides[s]) / (runs - 1) / runs : 0;
        sum += variance[s];
        freedom += runs > 1 ? variance[s] * variance[s] / (runs - 1) : 0;
    }
    if (sum == 0)
        return 0;
    return two_tails(difference / sqrt(sum), sum * sum / freedom);
}

double noise_probability(const struct noise_model *model, const struct noise_side sides[2])
{
    const double means[2] = {mean_of(&sides[0]), mean_of(&sides[1])};
    const double difference = fabs(means[1] - means[0]) - (sides[0].error + sides[1].error) -
                              sides[means[1] > means[0]].late;
    if (difference <= 1e-9 * fabs(means[0] + means[1]))
        return 1;
    if (sides[0].sample == 0 && sides[1].sample == 0)
        return judge_counts(sides, difference);
    const double pooled =
        (means[0] * sides[0].runs + means[1] * sides[1].runs) / (sides[0].runs + sides[1].runs);
    const bool repeated = sides[0].runs > 1 || sides[1].runs > 1;
    double sum = 0, freedom = 0;
    for (unsigned s = 0; s < 2; s++) {
        const double runs = sides[s].runs;
        const double prior = repeated ? NOISE_PRIOR_RUNS : 1;
        const double known = prior + runs - 1;
        const double variance =
            (prior * expected_variance(model, &sides[s], pooled) + squares_of(&sides[s])) / known /
            runs;
        sum += variance;
        freedom += variance * variance / known;
    }
    return two_tails(difference / sqrt(sum), repeated ? sum * sum / freedom : INFINITY);
}

void noise_spread_add(struct noise_spread *spread, const struct noise_side sides[2])
{
    for (unsigned s = 0; s < 2; s++) {
        const struct noise_side *side = &sides[s];
        const double mean = mean_of(side);
        if (side->runs < 2 || mean <= 0)
            continue;
        // Heavier rows know the spread better: their samples vary less.
        const double chance = side->sample / mean;
        const double square = squares_of(side) / (side->runs - 1) / (mean * mean);
        spread->sum += mean * (square - chance);
        spread->weight += mean;
    }
    spread->freedom = sides[0].runs + sides[1].runs - 2;
}

struct noise_model noise_model(const struct noise_spread *spread, double assumed)
{
    if (spread->freedom == 0 || spread->weight <= 0)
        return (struct noise_model){.spread = assumed};
    const double shown = spread->sum > 0 ? spread->sum / spread->weight : 0;
    const double prior = NOISE_PRIOR_RUNS;
    return (struct noise_model){.spread =
                                    sqrt((prior * assumed * assumed + spread->freedom * shown) /
                                         (prior + spread->freedom))};
}

static int compare_reals(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

size_t noise_testable(double *samples, size_t count, double alpha)
{
    qsort(samples, count, sizeof *samples, compare_reals);
    // Of n samples, all are on one side by chance with a probability of 2 * 2^-n.
    size_t tests = 0;
    while (tests < count && exp2(1 - samples[tests]) <= alpha / (double)(tests + 1))
        tests++;
    return tests;
}
