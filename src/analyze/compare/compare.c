// SPDX-License-Identifier: MIT

// The measures themselves. w is the weight of a context in the exact tree, v that in the
// approximation, W and V are the sums over all contexts. Scaling and what is hot go by what was
// charged instead: counters with errors have more than that, and to scale by their sum would make
// those too small that have none.

#include "analyze/compare/compare.h"
#include "base/memory.h"
#include <math.h>

struct measuring {
    const struct compare_tree *tree;
    const struct compare_options *options;
    struct compare_result *result;
};

static double weight(const struct measuring *measuring, uint32_t context, enum compare_side side)
{
    return compare_weight(&measuring->tree->contexts[context], side, measuring->result);
}

static void sum_up(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    const struct compare_tree *tree = measuring->tree;
    for (unsigned side = 0; side < 2; side++)
        result->outside[side] = tree->contexts[0].weight[side];
    for (size_t i = 1; i < tree->count; i++) {
        const struct compare_context *context = &tree->contexts[i];
        for (unsigned side = 0; side < 2; side++) {
            result->sum[side] += context->weight[side];
            result->contexts[side] += context->weight[side] > 0;
            if (context->weight[side] > result->hottest[side])
                result->hottest[side] = context->weight[side];
        }
        result->common += context->weight[EXACT] > 0 && context->has[APPROX];
    }
    for (unsigned side = 0; side < 2; side++) {
        const uint64_t charged = result->sum[side] - (uint64_t)tree->made_up[side];
        result->total[side] = (int64_t)charged > 0 ? charged : result->sum[side];
    }
    result->scale = measuring->options->scale;
    if (result->scale == 0)
        result->scale = result->total[APPROX] && result->total[EXACT]
                            ? (double)result->total[EXACT] / (double)result->total[APPROX]
                            : 1;
}

// Degree of overlap: the sum of w over contexts that the approximation has, by W. The weighted one
// is the sum of min(w/W, v/V), so two trees of the same contexts with other weights differ. Both
// shares add up to 1, so the sum is 1 less half of their differences.
static void measure_overlap(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    const struct compare_tree *tree = measuring->tree;
    uint64_t known = 0;
    double apart = 0;
    for (size_t i = 1; i < tree->count; i++) {
        const struct compare_context *context = &tree->contexts[i];
        known += context->has[APPROX] ? context->weight[EXACT] : 0;
        if (result->sum[EXACT] && result->sum[APPROX])
            apart += fabs((double)context->weight[EXACT] / (double)result->sum[EXACT] -
                          (double)context->weight[APPROX] / (double)result->sum[APPROX]);
    }
    if (result->sum[EXACT] && result->sum[APPROX])
        result->weighted_overlap = fmax(0, 1 - apart / 2);
    result->overlap = result->sum[EXACT] ? (double)known / (double)result->sum[EXACT] : 0;
}

// Of edges with w >= threshold * max w, how many the approximation has; and how hot those are that
// it has not.
static void measure_coverage(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    const struct compare_tree *tree = measuring->tree;
    double hottest = (double)result->hottest[EXACT], sum = 0;
    for (size_t i = 1; i < tree->count; i++) {
        const struct compare_context *context = &tree->contexts[i];
        double heat = (double)context->weight[EXACT];
        if (context->weight[EXACT] == 0)
            continue;
        for (unsigned t = 0; t < measuring->options->threshold_count; t++)
            // A weight of exactly a tenth must not fail by the last bit of 0.1.
            if (heat >= measuring->options->thresholds[t] * hottest * (1 - 1e-12)) {
                result->hot_edges[t]++;
                result->covered[t] += context->has[APPROX];
            }
        if (context->has[APPROX])
            continue;
        result->uncovered++;
        sum += heat / hottest * 100;
        result->uncovered_max = fmax(result->uncovered_max, heat / hottest * 100);
    }
    for (unsigned t = 0; t < measuring->options->threshold_count; t++)
        result->coverage[t] =
            result->hot_edges[t] ? (double)result->covered[t] / (double)result->hot_edges[t] : 1;
    result->uncovered_avg = result->uncovered ? sum / (double)result->uncovered : 0;
}

static void add_error(struct compare_error *error, double true_weight, double estimate)
{
    const double each = fabs(true_weight - estimate) / true_weight * 100;
    error->avg = (error->avg * (double)error->contexts + each) / (double)(error->contexts + 1);
    error->max = fmax(error->max, each);
    error->contexts++;
}

// A context is hot if its weight is at least floor(phi * W). The error of a counter is |w - v| / w.
// That of hot contexts is HCCT's measure, but one that the approximation has not is there with all
// of its weight. Contexts that only seem to be hot have errors of their own. They are few and truly
// cold, so one that is seen by chance is wrong by many times its weight.
static void measure_counters(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    double least = fmax(1, floor(measuring->options->phi * (double)result->total[EXACT]));
    // Scaling leaves a weight of exactly the least a bit above or below it.
    const double estimate_least = least * (1 - 1e-12);
    for (uint32_t i = 1; i < measuring->tree->count; i++) {
        double true_weight = weight(measuring, i, EXACT), estimate = weight(measuring, i, APPROX);
        bool hot = true_weight >= least, taken = estimate > 0 && estimate >= estimate_least;
        result->hot[EXACT] += hot;
        result->hot[APPROX] += taken;
        result->false_positives += taken && !hot;
        result->false_negatives += hot && !taken;
        if (hot)
            add_error(&result->error, true_weight, estimate);
        else if (taken && true_weight > 0)
            add_error(&result->false_error, true_weight, estimate);
    }
}

static bool is_hotter(const struct compare_tree *tree, uint32_t one, uint32_t other)
{
    const uint64_t heat = tree->contexts[one].weight[EXACT];
    const uint64_t other_heat = tree->contexts[other].weight[EXACT];
    return heat != other_heat ? heat > other_heat : one < other;
}

// The hottest edges, in order. There are few of these, and millions of others.
static void find_top(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    const struct compare_tree *tree = measuring->tree;
    const unsigned most = measuring->options->edges;
    uint32_t *top = memory_array(most + 1, sizeof *top);
    unsigned count = 0;
    for (uint32_t i = 1; most > 0 && i < tree->count; i++) {
        if (tree->contexts[i].weight[EXACT] == 0 ||
            (count == most && !is_hotter(tree, i, top[most - 1])))
            continue;
        unsigned at = 0;
        for (unsigned end = count; at < end;) {
            const unsigned middle = at + (end - at) / 2;
            if (is_hotter(tree, i, top[middle]))
                end = middle;
            else
                at = middle + 1;
        }
        memmove(top + at + 1, top + at, (count - at) * sizeof *top);
        top[at] = i;
        count += count < most;
    }
    result->top = top;
    result->top_count = count;
}

static double correlate(const double *x, const double *y, unsigned count)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (unsigned i = 0; i < count; i++) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    for (unsigned i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    return xx > 0 && yy > 0 ? fmax(-1, fmin(1, xy / sqrt(xx * yy))) : NAN;
}

// Ranks from 1 on; equal values share the mean of theirs.
static void rank(const double *values, double *ranks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned below = 0, equal = 0;
        for (unsigned j = 0; j < count; j++) {
            below += values[j] < values[i];
            equal += values[j] == values[i];
        }
        ranks[i] = below + (equal + 1) / 2.0;
    }
}

static void measure_correlation(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    unsigned count = result->top_count;
    double *values[2], *ranks[2];
    bool equal = count > 0;
    for (unsigned side = 0; side < 2; side++) {
        values[side] = memory_array(count, sizeof *values[side]);
        ranks[side] = memory_array(count, sizeof *ranks[side]);
        for (unsigned i = 0; i < count; i++)
            values[side][i] = weight(measuring, result->top[i], (enum compare_side)side);
        rank(values[side], ranks[side], count);
    }
    for (unsigned i = 0; i < count; i++)
        equal &= fabs(values[EXACT][i] - values[APPROX][i]) <= 1e-9 * values[EXACT][i];
    // Edges that are all as hot have no correlation, unless one wants to call equality one.
    result->pearson = equal ? 1 : correlate(values[EXACT], values[APPROX], count);
    result->spearman = equal ? 1 : correlate(ranks[EXACT], ranks[APPROX], count);
    for (unsigned side = 0; side < 2; side++) {
        free(values[side]);
        free(ranks[side]);
    }
}

static double difference(const struct compare_share *share)
{
    return fabs(share->percent[EXACT] - share->percent[APPROX]);
}

static int most_distorted_first(const void *left, const void *right)
{
    const struct compare_share *a = left, *b = right;
    if (difference(a) != difference(b))
        return difference(a) < difference(b) ? 1 : -1;
    return a->function < b->function ? -1 : a->function > b->function;
}

// csprof's: the sum over functions of |v(f)/V - w(f)/W|, from 0 to 200 %.
static void measure_distortion(struct measuring *measuring)
{
    struct compare_result *result = measuring->result;
    const struct compare_tree *tree = measuring->tree;
    struct compare_share *shares = memory_array(tree->function_count, sizeof *shares);
    for (size_t i = 1; i < tree->count; i++) {
        const struct compare_context *context = &tree->contexts[i];
        for (unsigned side = 0; side < 2; side++)
            if (result->sum[side])
                shares[context->function].percent[side] +=
                    (double)context->weight[side] / (double)result->sum[side] * 100;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < tree->function_count; i++) {
        result->distortion += difference(&shares[i]);
        if (shares[i].percent[EXACT] > 0 || shares[i].percent[APPROX] > 0) {
            shares[count] = shares[i];
            shares[count++].function = i;
        }
    }
    qsort(shares, count, sizeof *shares, most_distorted_first);
    result->functions = shares;
    result->function_count = count;
}

void compare_measure(const struct compare_tree *tree, const struct compare_options *options,
                     struct compare_result *result)
{
    *result = (struct compare_result){0};
    struct measuring measuring = {tree, options, result};
    sum_up(&measuring);
    measure_overlap(&measuring);
    measure_coverage(&measuring);
    measure_counters(&measuring);
    find_top(&measuring);
    measure_correlation(&measuring);
    measure_distortion(&measuring);
}

void compare_result_free(struct compare_result *result)
{
    free(result->top);
    free(result->functions);
    *result = (struct compare_result){0};
}
