// SPDX-License-Identifier: MIT

#include "analyze/report/spread.h"
#include "base/memory.h"
#include "profile/ranks.h"

#define COLUMN_BYTES ((size_t)128 << 20) // of all values of a profile with columns
#define MOST_COLUMNS 256u

static void take_value(struct spread_row *row, uint64_t value, uint32_t rank, bool is_first)
{
    if (is_first || value > row->most) {
        row->most = value;
        row->rank = rank;
    }
    if (is_first || value < row->least)
        row->least = value;
    row->sum += (double)value;
}

static uint64_t rank_whole(const struct profile *profile, uint32_t rank, unsigned metric)
{
    uint64_t whole = 0;
    struct rank_cursor cursor;
    rank_cursor_start(&cursor, profile, rank);
    for (const struct rank_cost *cost; (cost = rank_cursor_next(&cursor));)
        whole += cost->metric == metric ? cost->value : 0;
    return whole;
}

struct spread *spread_new(const struct profile *profile, unsigned metric)
{
    struct spread *spread = memory_array(1, sizeof *spread);
    *spread = (struct spread){.profile = profile, .metric = metric};
    spread->ranks = memory_array(profile->rank_count, sizeof *spread->ranks);
    for (uint32_t i = 0; i < profile->rank_count; i++) {
        if (!(profile->ranks[i].metrics >> metric & 1))
            continue;
        take_value(&spread->whole, rank_whole(profile, i, metric), i, spread->count == 0);
        spread->ranks[spread->count++] = i;
    }
    return spread;
}

static void free_view(struct spread *spread)
{
    for (unsigned i = 0; spread->view.trees && i < spread->view.tree_count; i++)
        free(spread->view.trees[i].values);
    free(spread->view.trees);
    free(spread->view.metrics);
    spread->view = (struct profile){0};
}

void spread_free(struct spread *spread)
{
    if (!spread)
        return;
    free_view(spread);
    free(spread->ranks);
    free(spread->rows);
    free(spread);
}

static uint32_t columns_for(const struct spread *spread)
{
    uint64_t nodes = 1;
    for (unsigned i = 0; i < spread->profile->tree_count; i++)
        nodes += spread->profile->trees[i].count;
    const uint64_t column = nodes * sizeof(uint64_t);
    const uint64_t most = COLUMN_BYTES / column;
    const uint32_t left = spread->count - spread->first;
    const uint32_t columns = most < 1 ? 1 : most < MOST_COLUMNS ? (uint32_t)most : MOST_COLUMNS;
    return columns < left ? columns : left;
}

// Each column is of the same kind as the metric.
static void widen_metrics(struct spread *spread)
{
    const struct profile *profile = spread->profile;
    struct profile_metric *metrics =
        memory_array(profile->metric_count + spread->columns, sizeof *metrics);
    memcpy(metrics, profile->metrics, profile->metric_count * sizeof *metrics);
    for (uint32_t i = 0; i < spread->columns; i++)
        metrics[profile->metric_count + i] = profile->metrics[spread->metric];
    spread->view.metrics = metrics;
    spread->view.metric_count += spread->columns;
}

static uint64_t *widened(const struct profile_tree *tree, unsigned from, unsigned to)
{
    uint64_t *values = memory_array((size_t)tree->count * to, sizeof *values);
    for (uint32_t i = 0; i < tree->count; i++)
        memcpy(values + (size_t)i * to, tree->values + (size_t)i * from, from * sizeof *values);
    return values;
}

static void fill_column(const struct spread *spread, uint32_t column)
{
    const struct profile *view = &spread->view;
    const unsigned at = spread->profile->metric_count + column;
    struct rank_cursor cursor;
    rank_cursor_start(&cursor, spread->profile, spread->ranks[spread->first + column]);
    for (const struct rank_cost *cost; (cost = rank_cursor_next(&cursor));)
        if (cost->metric == spread->metric)
            view->trees[cost->tree].values[(size_t)cost->node * view->metric_count + at] =
                cost->value;
}

const struct profile *spread_next(struct spread *spread)
{
    const struct profile *profile = spread->profile;
    free_view(spread);
    spread->first += spread->columns;
    spread->columns = columns_for(spread);
    if (spread->columns == 0)
        return NULL;
    spread->view = *profile;
    widen_metrics(spread);
    spread->view.trees = memory_array(profile->tree_count, sizeof *spread->view.trees);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        spread->view.trees[i] = profile->trees[i];
        spread->view.trees[i].values =
            widened(&profile->trees[i], profile->metric_count, spread->view.metric_count);
    }
    for (uint32_t i = 0; i < spread->columns; i++)
        fill_column(spread, i);
    return &spread->view;
}

void spread_take(struct spread *spread, const uint64_t *total, size_t rows, unsigned metrics)
{
    if (!spread->rows) {
        spread->rows = memory_array(rows, sizeof *spread->rows);
        spread->row_count = rows;
    }
    const unsigned first = spread->profile->metric_count;
    for (size_t i = 0; i < rows && i < spread->row_count; i++)
        for (uint32_t j = 0; j < spread->columns; j++)
            take_value(&spread->rows[i], total[i * metrics + first + j],
                       spread->ranks[spread->first + j], spread->first + j == 0);
}
