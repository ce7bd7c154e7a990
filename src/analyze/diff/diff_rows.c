// SPDX-License-Identifier: MIT

#include "analyze/diff/diff_rows.h"
#include "analyze/diff/noise.h"
#include "base/memory.h"
#include <math.h>

// A context that is called as much more often as its caller, but for a tenth, is so because of it.
#define INHERITED_PART 0.1
#define SPREAD_LEAST 0.01 // contexts with that share of all cost show how far runs differ

// A context, as far as the rows need it.
struct judged_context {
    double calls[DIFF_SIDES]; // its own, or those of the next caller whose were counted
    bool counted;             // they are its own
    bool moved;               // they changed
    bool inherits;            // because those of its caller did
    bool significant;
    // Of its own and of what was left over from below: the change that more calls explain, the
    // variance of that by samples, and the old cost of the contexts whose calls changed.
    double by_calls, by_calls_variance, by_calls_old;
};

struct judging {
    const struct diff *diff;
    const struct diff_judgement *judgement;
    struct judged_context *contexts; // by node
    uint64_t *sums;   // all columns by node: its own and what was left over from below
    double *values;   // of one row: by run
    uint32_t *row_of; // by node: + 1; 0: none
    struct noise_model model;
    struct diff_rows *rows;
};

// Counts of runs of different lengths are not in proportion to the last unit: what is done once is
// a smaller share of the longer run. A change that a report shows as 0.00 % is none.
#define NORMALIZED_PART 0.00005

static bool is_exact(const struct judging *judging)
{
    return judging->diff->metrics[judging->diff->metric].exact;
}

static const uint64_t *columns_of(const struct judging *judging, const uint64_t *values,
                                  uint32_t node)
{
    return values + (size_t)node * judging->diff->tree->metrics;
}

// The sides of a row, the old one's values times a factor.
static void fill_sides(const struct judging *judging, const uint64_t *columns, double factor,
                       struct noise_side sides[DIFF_SIDES])
{
    const struct diff *diff = judging->diff;
    const unsigned metric = diff->metric, error = diff->metrics[metric].error;
    unsigned run = 0;
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++) {
        const double times = side == DIFF_OLD ? factor : 1;
        sides[side] =
            (struct noise_side){.values = judging->values + run, .runs = diff->side_runs[side]};
        for (unsigned i = 0; i < diff->side_runs[side]; i++, run++) {
            judging->values[run] = times * diff->runs[run].scale[metric] *
                                   (double)columns[diff_column(diff, run, metric)];
            sides[side].sample += times * diff->runs[run].sample[metric] / sides[side].runs;
            sides[side].late += times * diff->runs[run].late[metric] / sides[side].runs;
        }
        if (error != DIFF_NONE)
            sides[side].error = times * diff_mean(diff, columns, side, error);
        if (diff->normalized && is_exact(judging))
            sides[side].error += NORMALIZED_PART * diff_total(diff, 0, side, metric);
    }
}

static double probability_of(const struct judging *judging, const uint64_t *columns, double factor)
{
    struct noise_side sides[DIFF_SIDES];
    fill_sides(judging, columns, factor, sides);
    return noise_probability(&judging->model, sides);
}

// Of both sides together.
static double samples_of(const struct judging *judging, const uint64_t *columns)
{
    struct noise_side sides[DIFF_SIDES];
    fill_sides(judging, columns, 1, sides);
    double samples = 0;
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++)
        for (unsigned i = 0; i < sides[side].runs; i++)
            samples += sides[side].sample > 0 ? sides[side].values[i] / sides[side].sample : 0;
    return samples;
}

// Calls

static bool is_absent(const struct judging *judging, uint32_t node, enum diff_side side)
{
    const struct diff *diff = judging->diff;
    return diff_total(diff, node, side, diff->metric) == 0 &&
           (diff->calls == DIFF_NONE || diff_total(diff, node, side, diff->calls) == 0);
}

static enum diff_presence presence_of(const struct judging *judging, uint32_t node)
{
    const bool old = !is_absent(judging, node, DIFF_OLD), new = !is_absent(judging, node, DIFF_NEW);
    return old == new ? DIFF_BOTH : new ? DIFF_IS_NEW : DIFF_IS_GONE;
}

static bool inherits_calls(const struct judged_context *context,
                           const struct judged_context *caller)
{
    if (!context->counted)
        return true;
    const double change = context->calls[DIFF_NEW] - context->calls[DIFF_OLD];
    const double factor = caller->calls[DIFF_NEW] / caller->calls[DIFF_OLD];
    return change != 0 && isfinite(factor) &&
           fabs(context->calls[DIFF_NEW] - factor * context->calls[DIFF_OLD]) <=
               INHERITED_PART * fabs(change);
}

static void find_calls(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    judging->contexts[0] = (struct judged_context){.calls = {1, 1}};
    for (uint32_t i = 1; i < diff->tree->count; i++) {
        struct judged_context *context = &judging->contexts[i];
        const uint32_t above = diff->tree->nodes[i].parent;
        const struct judged_context *caller = &judging->contexts[above];
        for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES && diff->calls != DIFF_NONE; side++)
            context->calls[side] = diff_self(diff, i, side, diff->calls);
        context->counted = context->calls[DIFF_OLD] + context->calls[DIFF_NEW] > 0;
        if (!context->counted)
            memcpy(context->calls, caller->calls, sizeof context->calls);
        context->moved = context->calls[DIFF_OLD] != context->calls[DIFF_NEW];
        context->inherits = (caller->moved && inherits_calls(context, caller)) ||
                            (above != 0 && presence_of(judging, above) != DIFF_BOTH);
    }
}

// The part of a context's change that comes of more calls.
static double change_by_calls(const struct judging *judging, uint32_t node)
{
    const struct diff *diff = judging->diff;
    const struct judged_context *context = &judging->contexts[node];
    const double old = diff_self(diff, node, DIFF_OLD, diff->metric),
                 new = diff_self(diff, node, DIFF_NEW, diff->metric);
    if (context->calls[DIFF_OLD] == 0 || context->calls[DIFF_NEW] == 0)
        return new - old;
    return (context->calls[DIFF_NEW] - context->calls[DIFF_OLD]) * old / context->calls[DIFF_OLD];
}

// Judgement

// More calls at the old cost of each. Contexts that one side alone has are left to their samples.
static void predict_by_calls(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    if (!judging->rows->has_calls || is_exact(judging))
        return;
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        struct judged_context *context = &judging->contexts[i];
        if (context->calls[DIFF_OLD] == 0 || context->calls[DIFF_NEW] == 0)
            continue;
        struct noise_side sides[DIFF_SIDES];
        fill_sides(judging, columns_of(judging, diff->tree->self, i), 1, sides);
        const double factor = context->calls[DIFF_NEW] / context->calls[DIFF_OLD] - 1;
        if (factor == 0)
            continue;
        context->by_calls = change_by_calls(judging, i);
        context->by_calls_old = diff_self(diff, i, DIFF_OLD, diff->metric);
        context->by_calls_variance =
            factor * factor * sides[DIFF_OLD].sample * context->by_calls_old / sides[DIFF_OLD].runs;
    }
}

// Calls are exact: how much a change of theirs costs is uncertain only by what a call has cost. So
// it may be known where the difference of two sampled costs is not. At least half of it must be
// seen.
static double judge_by_calls(const struct judging *judging, uint32_t node)
{
    const struct diff *diff = judging->diff;
    const struct judged_context *context = &judging->contexts[node];
    const uint64_t *columns = columns_of(judging, judging->sums, node);
    const double old = diff_mean(diff, columns, DIFF_OLD, diff->metric),
                 new = diff_mean(diff, columns, DIFF_NEW, diff->metric);
    const double change = context->by_calls, before = context->by_calls_old;
    if (change == 0 || before <= 0 || fabs(new - old - change) > fabs(change) / 2)
        return 1;
    struct noise_side sides[DIFF_SIDES];
    fill_sides(judging, columns, 1, sides);
    const double sure = before - sides[DIFF_OLD].late - sides[DIFF_OLD].error;
    if (sure <= 0)
        return 1;
    const double spread = judging->model.spread, after = before + change;
    const double variance =
        context->by_calls_variance +
        spread * spread *
            (before * before / sides[DIFF_OLD].runs + after * after / sides[DIFF_NEW].runs);
    return erfc(fabs(change) * sure / before / sqrt(2 * variance));
}

// Whether the sum of a context and of what is left over below it has changed by itself.
static double judge(const struct judging *judging, uint32_t node)
{
    const struct judged_context *context = &judging->contexts[node];
    const uint64_t *columns = columns_of(judging, judging->sums, node);
    if (!context->inherits)
        return fmin(probability_of(judging, columns, 1), judge_by_calls(judging, node));
    if (context->calls[DIFF_OLD] == 0 || context->calls[DIFF_NEW] == 0 ||
        presence_of(judging, judging->diff->tree->nodes[node].parent) != DIFF_BOTH)
        return 1;
    // A part of it may be done but once, however often its caller is called.
    const struct diff *diff = judging->diff;
    const double factor = context->calls[DIFF_NEW] / context->calls[DIFF_OLD];
    const double old = diff_mean(diff, columns, DIFF_OLD, diff->metric),
                 new = diff_mean(diff, columns, DIFF_NEW, diff->metric);
    if (fabs(new - factor *old) <= INHERITED_PART * fabs(new - old))
        return 1;
    return probability_of(judging, columns, factor);
}

static void pass_up(const struct judging *judging, uint32_t node)
{
    const unsigned columns = judging->diff->tree->metrics;
    const uint64_t *from = judging->sums + (size_t)node * columns;
    uint64_t *to = judging->sums + (size_t)judging->diff->tree->nodes[node].parent * columns;
    for (unsigned i = 0; i < columns; i++)
        to[i] += from[i];
    struct judged_context *above = &judging->contexts[judging->diff->tree->nodes[node].parent];
    above->by_calls += judging->contexts[node].by_calls;
    above->by_calls_variance += judging->contexts[node].by_calls_variance;
    above->by_calls_old += judging->contexts[node].by_calls_old;
}

static struct diff_row *new_row(struct diff_rows *rows, size_t *capacity, uint32_t node)
{
    rows->rows = memory_grown(rows->rows, capacity, rows->count + 1, sizeof *rows->rows);
    rows->rows[rows->count] = (struct diff_row){.node = node, .probability = 1};
    return &rows->rows[rows->count++];
}

static void add_to_row(const struct judging *judging, struct diff_row *row, uint32_t node)
{
    const struct diff *diff = judging->diff;
    double change = 0;
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++) {
        const double cost = diff_self(diff, node, side, diff->metric);
        row->cost[side] += cost;
        change += side == DIFF_NEW ? cost : -cost;
    }
    row->contexts++;
    if (!judging->rows->has_calls)
        return;
    const double by_calls = change_by_calls(judging, node);
    row->by_calls += by_calls;
    row->by_price += change - by_calls;
}

// A row that nothing is named in is noise, and shown context by context.
static void divide_by_context(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    struct diff_rows *rows = judging->rows;
    size_t capacity = 0;
    judging->sums = memory_array(diff->tree->count * diff->tree->metrics, sizeof *judging->sums);
    memcpy(judging->sums, diff->tree->self,
           diff->tree->count * diff->tree->metrics * sizeof *judging->sums);
    predict_by_calls(judging);
    double *probability = memory_array(diff->tree->count, sizeof *probability);
    for (uint32_t i = (uint32_t)diff->tree->count; i-- > 0;) {
        probability[i] = i == diff->interrupts ? 1 : judge(judging, i);
        judging->contexts[i].significant = probability[i] < rows->alpha;
        if (!judging->contexts[i].significant && i > 0 && i != diff->interrupts)
            pass_up(judging, i);
    }
    judging->row_of = memory_array(diff->tree->count, sizeof *judging->row_of);
    rows->named = memory_array(diff->tree->count, sizeof *rows->named);
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        const bool named = judging->contexts[i].significant;
        if (!named && i > 0 && i != diff->interrupts)
            judging->row_of[i] = judging->row_of[diff->tree->nodes[i].parent];
        if (named) {
            struct diff_row *row = new_row(rows, &capacity, i);
            row->significant = true;
            row->probability = probability[i];
            judging->row_of[i] = (uint32_t)rows->count;
        }
    }
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        rows->named[i] = judging->row_of[i] != 0;
        struct diff_row *row =
            judging->row_of[i] ? &rows->rows[judging->row_of[i] - 1] : new_row(rows, &capacity, i);
        if (!judging->row_of[i])
            row->probability = probability[i];
        add_to_row(judging, row, i);
    }
    free(probability);
}

static void divide_by_function(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    struct diff_rows *rows = judging->rows;
    const unsigned columns = diff->tree->metrics;
    const uint32_t functions = functions_count(diff->functions);
    size_t capacity = 0;
    judging->sums = memory_array((size_t)functions * columns, sizeof *judging->sums);
    judging->row_of = memory_array(functions, sizeof *judging->row_of);
    double *largest = memory_array(functions, sizeof *largest);
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        const uint32_t function = diff->tree->nodes[i].function;
        if (!judging->row_of[function]) {
            new_row(rows, &capacity, i);
            judging->row_of[function] = (uint32_t)rows->count;
        }
        struct diff_row *row = &rows->rows[judging->row_of[function] - 1];
        add_to_row(judging, row, i);
        for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++)
            row->calls[side] += judging->contexts[i].counted ? judging->contexts[i].calls[side] : 0;
        const uint64_t *from = columns_of(judging, diff->tree->self, i);
        for (unsigned c = 0; c < columns; c++)
            judging->sums[(size_t)function * columns + c] += from[c];
        const double change = fabs(diff_self(diff, i, DIFF_NEW, diff->metric) -
                                   diff_self(diff, i, DIFF_OLD, diff->metric));
        if (change > largest[function]) {
            largest[function] = change;
            row->node = i;
        }
    }
    free(largest);
    for (uint32_t function = 0; function < functions; function++) {
        if (!judging->row_of[function])
            continue;
        struct diff_row *row = &rows->rows[judging->row_of[function] - 1];
        if (row->node != diff->interrupts)
            row->probability =
                probability_of(judging, columns_of(judging, judging->sums, function), 1);
        row->significant = row->probability < rows->alpha;
    }
}

// Finishing

static int compare_rows(const void *left, const void *right)
{
    const struct diff_row *a = left, *b = right;
    const double one = fabs(diff_row_change(a)), other = fabs(diff_row_change(b));
    if (one != other)
        return one < other ? 1 : -1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void finish_rows(struct judging *judging)
{
    struct diff_rows *rows = judging->rows;
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct diff_row row = rows->rows[i];
        if (row.cost[DIFF_OLD] == row.cost[DIFF_NEW])
            continue;
        if (rows->by == DIFF_BY_CONTEXT) {
            row.presence = presence_of(judging, row.node);
            memcpy(row.calls, judging->contexts[row.node].calls, sizeof row.calls);
        } else if (row.cost[DIFF_OLD] == 0 || row.cost[DIFF_NEW] == 0) {
            row.presence = row.cost[DIFF_OLD] == 0 ? DIFF_IS_NEW : DIFF_IS_GONE;
        }
        rows->significant += row.significant;
        rows->rows[kept++] = row;
    }
    rows->count = kept;
    qsort(rows->rows, rows->count, sizeof *rows->rows, compare_rows);
}

// How many rows can be named, and how improbable they have to be.
static void set_level(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    const double alpha = 1 - judging->judgement->confidence / 100;
    struct diff_rows *rows = judging->rows;
    rows->tests = diff->tree->count;
    if (is_exact(judging)) {
        rows->alpha = alpha;
        return;
    }
    double *samples = memory_array(diff->tree->count, sizeof *samples);
    for (uint32_t i = 0; i < diff->tree->count; i++)
        samples[i] = samples_of(judging, columns_of(judging, diff->tree->total, i));
    rows->tests = noise_testable(samples, diff->tree->count, alpha);
    free(samples);
    rows->alpha = alpha / (double)(rows->tests ? rows->tests : 1);
}

static void set_model(struct judging *judging)
{
    const struct diff *diff = judging->diff;
    struct noise_spread spread = {0};
    const double whole = diff_total(diff, 0, DIFF_OLD, diff->metric);
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        struct noise_side sides[DIFF_SIDES];
        if (diff_self(diff, i, DIFF_OLD, diff->metric) < SPREAD_LEAST * whole)
            continue;
        fill_sides(judging, columns_of(judging, diff->tree->self, i), 1, sides);
        noise_spread_add(&spread, sides);
    }
    judging->model = noise_model(&spread, judging->judgement->spread);
    judging->rows->spread = judging->model.spread;
}

struct diff_rows diff_rows(const struct diff *diff, const struct diff_judgement *judgement)
{
    struct diff_rows rows = {.by = judgement->by,
                             .has_calls = diff->calls != DIFF_NONE && diff->calls != diff->metric};
    struct judging judging = {
        .diff = diff,
        .judgement = judgement,
        .contexts = memory_array(diff->tree->count, sizeof *judging.contexts),
        .values = memory_array(diff->run_count, sizeof *judging.values),
        .rows = &rows,
    };
    find_calls(&judging);
    set_model(&judging);
    set_level(&judging);
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++)
        rows.total[side] = diff_total(diff, 0, side, diff->metric);
    rows.total_significant =
        probability_of(&judging, diff->tree->total, 1) < 1 - judgement->confidence / 100;
    if (judgement->by == DIFF_BY_CONTEXT)
        divide_by_context(&judging);
    else
        divide_by_function(&judging);
    finish_rows(&judging);
    free(judging.contexts);
    free(judging.values);
    free(judging.sums);
    free(judging.row_of);
    return rows;
}

void diff_rows_free(struct diff_rows *rows)
{
    free(rows->rows);
    free(rows->named);
    *rows = (struct diff_rows){0};
}
