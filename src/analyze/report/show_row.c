// SPDX-License-Identifier: MIT

#include "analyze/report/show_row.h"
#include "analyze/metric_ratios.h"
#include "base/memory.h"
#include "profile/queries/sampling_error.h"

#define GAP 2            // columns of space that tables have between columns
#define WHERE_COLUMNS 24 // on a terminal, longer file names lose their beginning
#define WHERE_LEAST 14
#define NAME_LEAST 24          // of a name, before other columns are left out
#define NAME_BESIDE_METRICS 34 // the same if several metrics take the place
#define WIDE_TERMINAL 150      // columns from which on file names may be longer

enum {
    COLUMN_SHARE,
    COLUMN_VALUE,
    COLUMN_SELF,
    COLUMN_LEAST, // of its total in one rank, and so on
    COLUMN_MEAN,
    COLUMN_MOST,
    COLUMN_IMBALANCE,
    COLUMN_METRICS, // the other metrics
    COLUMN_CALLS = COLUMN_METRICS + SHOW_METRICS - 1,
    COLUMN_PER_CALL,
    COLUMN_RETURNS,
    COLUMN_NAME,
    COLUMN_WHERE,
    COLUMNS
};

struct sheet_cell {
    struct text_number text;
    enum text_tone tone;
};

struct sheet_row {
    struct show_row values;
    char *where, *name; // NULL: none
};

struct show_sheet {
    const struct show_options *options;
    const struct text_style *style;
    const char *head[COLUMNS];
    struct sheet_row *rows;
    size_t count, capacity;
    size_t named;             // rows that have a name
    unsigned widest[COLUMNS]; // of the cells, without the head
    bool without[COLUMNS];    // columns that gave way
    unsigned where_columns;   // at most; 0: no limit
};

struct show_sheet *show_sheet_new(const struct show_options *options,
                                  const struct text_style *style, const char *name_head)
{
    struct show_sheet *sheet = memory_array(1, sizeof *sheet);
    sheet->options = options;
    sheet->style = style;
    const char *const first = options->metric_count > 1 ? options->metrics[0].name
                              : options->counts_calls   ? "below"
                                                        : "total";
    for (unsigned i = 0; i < COLUMNS; i++)
        sheet->head[i] = "";
    sheet->head[COLUMN_SHARE] = text_safe(first);
    sheet->head[COLUMN_SELF] = "self";
    sheet->head[COLUMN_LEAST] = "min";
    sheet->head[COLUMN_MEAN] = "mean";
    sheet->head[COLUMN_MOST] = "max";
    sheet->head[COLUMN_IMBALANCE] = "imbalance";
    for (unsigned i = 1; i < options->metric_count; i++)
        sheet->head[COLUMN_METRICS + i - 1] = options->metrics[i].name;
    sheet->head[COLUMN_CALLS] = "calls";
    sheet->head[COLUMN_PER_CALL] = "per call";
    sheet->head[COLUMN_RETURNS] = "returns";
    sheet->head[COLUMN_NAME] = name_head;
    sheet->head[COLUMN_WHERE] = "where";
    return sheet;
}

struct show_sheet *show_sheet_like(const struct show_sheet *sheet)
{
    struct show_sheet *empty = memory_array(1, sizeof *empty);
    *empty = *sheet;
    empty->rows = NULL;
    empty->count = empty->capacity = empty->named = 0;
    return empty;
}

void show_sheet_free(struct show_sheet *sheet)
{
    for (size_t i = 0; i < sheet->count; i++) {
        free(sheet->rows[i].where);
        free(sheet->rows[i].name);
    }
    free(sheet->rows);
    free(sheet);
}

// The share of a function alone, with its bound where there is one: "12.3 % ±0.1".
static struct text_number self_share(const struct show_options *options, const struct show_row *row)
{
    struct text_number cell = {""};
    const double whole = (double)options->whole;
    const uint64_t self = row->self[options->metric];
    if ((double)self < 0.0005 * whole || self == 0)
        return cell;
    cell = text_percent((double)self, whole);
    const double bound = options->has_error ? (double)row->self[options->error]
                         : options->estimated
                             ? profile_sampling_error(options->profile, options->metric, row->self)
                             : 0;
    const double error = whole > 0 ? 100 * bound / whole : 0;
    const size_t length = strlen(cell.text);
    // An error that rounding hides anyway is not worth a column.
    if (error >= 0.005)
        snprintf(cell.text + length, sizeof cell.text - length,
                 error < 0.095 ? " %s%.2f" : " %s%.1f", options->unicode ? "±" : "+-", error);
    return cell;
}

static void set(struct sheet_cell *cell, enum text_tone tone, struct text_number text)
{
    *cell = (struct sheet_cell){.text = text, .tone = tone};
}

#define FEW 9.95 // of a unit: with a decimal

// The cost of a call, which may be less than a nanosecond.
static struct text_number cost_text(double cost, const char *unit)
{
    struct text_number number;
    if (cost >= FEW)
        return text_amount((uint64_t)(cost + 0.5), unit);
    snprintf(number.text, sizeof number.text, "%.1f%s", cost,
             strcmp(unit, "ns") == 0      ? " ns"
             : strcmp(unit, "s") == 0     ? " s"
             : strcmp(unit, "bytes") == 0 ? " B"
                                          : "");
    return number;
}

static struct text_number metric_text(const struct show_metric *metric, const uint64_t *totals)
{
    const uint64_t value = totals[metric->index], over = totals[metric->over];
    if (!value || (metric->is_ratio && !over))
        return (struct text_number){""};
    if (!metric->is_ratio)
        return text_amount(value, metric->unit);
    return strcmp(metric->unit, "%") == 0
               ? text_percent((double)value, (double)over)
               : cost_text(metric_ratio_value(metric->unit, value, over), metric->unit);
}

static void set_spread(struct sheet_cell *cells, const struct show_options *options,
                       const struct spread_row *row)
{
    const double mean = spread_mean(options->spread, row);
    set(&cells[COLUMN_LEAST], TEXT_DIM, text_amount(row->least, options->unit));
    set(&cells[COLUMN_MEAN], TEXT_DIM, text_amount((uint64_t)(mean + 0.5), options->unit));
    set(&cells[COLUMN_MOST], TEXT_PLAIN, text_amount(row->most, options->unit));
    if (mean > 0)
        set(&cells[COLUMN_IMBALANCE], TEXT_PLAIN, text_percent((double)row->most - mean, mean));
}

static void set_numbers(struct sheet_cell *cells, const struct show_options *options,
                        const struct show_row *row)
{
    const double whole = (double)options->whole;
    const uint64_t total = row->total[options->metric], self = row->self[options->metric];
    const bool hot = whole > 0 && (double)self >= 0.05 * whole && !row->one_value;
    const bool warm = whole > 0 && (double)total >= 0.10 * whole;
    set(&cells[COLUMN_SHARE], warm ? TEXT_WARM : TEXT_PLAIN, text_percent((double)total, whole));
    set(&cells[COLUMN_VALUE], TEXT_DIM, text_amount(total, options->unit));
    if (!row->one_value)
        set(&cells[COLUMN_SELF], hot ? TEXT_HOT : TEXT_PLAIN, self_share(options, row));
    for (unsigned i = 1; i < options->metric_count; i++) {
        const struct show_metric *metric = &options->metrics[i];
        set(&cells[COLUMN_METRICS + i - 1], TEXT_PLAIN, metric_text(metric, row->total));
    }
    if (row->spread)
        set_spread(cells, options, row->spread);
    const bool calls = options->has_calls && row->calls > 0;
    if (calls)
        set(&cells[COLUMN_CALLS], TEXT_DIM, text_count(row->calls));
    if (calls && !options->counts_calls && total > 0) {
        const double cost = show_per_call(options, options->metric, total, row->calls);
        set(&cells[COLUMN_PER_CALL], TEXT_PLAIN, cost_text(cost, options->unit));
    }
    // Real calls say more than returns between samples do.
    if (!options->has_calls && !options->spread && row->returns > 0)
        set(&cells[COLUMN_RETURNS], TEXT_DIM, text_count(row->returns));
    cells[COLUMN_NAME].tone = hot ? TEXT_BOLD : TEXT_PLAIN;
}

// The cells of a row but for its name and place; they hold until the next row.
static void format_row(const struct show_sheet *sheet, const struct show_row *row,
                       struct sheet_cell cells[COLUMNS])
{
    for (unsigned i = 0; i < COLUMNS; i++)
        set(&cells[i], TEXT_PLAIN, (struct text_number){""});
    if (row->total)
        set_numbers(cells, sheet->options, row);
}

void show_sheet_add(struct show_sheet *sheet, const struct show_row *row)
{
    sheet->rows =
        memory_grown(sheet->rows, &sheet->capacity, sheet->count + 1, sizeof *sheet->rows);
    const char *where = text_safe(row->where);
    sheet->rows[sheet->count++] =
        (struct sheet_row){.values = *row, .where = *where ? memory_text(where) : NULL};
    sheet->rows[sheet->count - 1].values.where = NULL; // it is the caller's
    struct sheet_cell cells[COLUMNS];
    format_row(sheet, row, cells);
    for (unsigned i = 0; i < COLUMNS; i++) {
        const unsigned width = text_width(i == COLUMN_WHERE ? where : cells[i].text.text);
        if (width > sheet->widest[i])
            sheet->widest[i] = width;
    }
}

static unsigned widest(const struct show_sheet *sheet, unsigned column)
{
    const unsigned width = sheet->widest[column], head = text_width(sheet->head[column]);
    return width > 0 && width < head ? head : width;
}

unsigned show_sheet_lay_out(struct show_sheet *sheet, unsigned wanted)
{
    const unsigned width = sheet->style->width;
    if (width == 0)
        return 0;
    unsigned widths[COLUMNS], taken = 0;
    for (unsigned i = 0; i < COLUMNS; i++)
        widths[i] = i == COLUMN_NAME ? 0 : widest(sheet, i);
    const unsigned usual = width >= WIDE_TERMINAL ? 2 * WHERE_COLUMNS : WHERE_COLUMNS;
    if (widths[COLUMN_WHERE] > usual)
        widths[COLUMN_WHERE] = usual;
    for (unsigned i = 0; i < COLUMNS; i++)
        taken += widths[i] ? widths[i] + GAP : 0;
    if (taken + wanted > width && widths[COLUMN_RETURNS] > 0) {
        sheet->without[COLUMN_RETURNS] = true;
        taken -= widths[COLUMN_RETURNS] + GAP;
    }
    for (; taken + wanted > width && widths[COLUMN_WHERE] > WHERE_LEAST; taken--)
        widths[COLUMN_WHERE]--;
    // With several metrics, their totals matter more than the cost of the function alone.
    const bool several = sheet->options->metric_count > 1 || sheet->options->spread;
    if (taken + NAME_BESIDE_METRICS > width && several && sheet->options->order == ORDER_TOTAL) {
        sheet->without[COLUMN_SELF] = true;
        taken -= widths[COLUMN_SELF] ? widths[COLUMN_SELF] + GAP : 0;
    }
    if (taken + (several ? NAME_BESIDE_METRICS : NAME_LEAST) > width && widths[COLUMN_WHERE] > 0) {
        sheet->without[COLUMN_WHERE] = true;
        taken -= widths[COLUMN_WHERE] + GAP;
    }
    // The sum says less than the mean, which stands beside it.
    if (taken + NAME_BESIDE_METRICS > width && sheet->options->spread) {
        sheet->without[COLUMN_VALUE] = true;
        taken -= widths[COLUMN_VALUE] ? widths[COLUMN_VALUE] + GAP : 0;
    }
    for (unsigned i = sheet->options->metric_count; i > 1 && taken + NAME_LEAST > width; i--) {
        sheet->without[COLUMN_METRICS + i - 2] = true;
        taken -= widths[COLUMN_METRICS + i - 2] ? widths[COLUMN_METRICS + i - 2] + GAP : 0;
    }
    sheet->where_columns = widths[COLUMN_WHERE] ? widths[COLUMN_WHERE] : 1;
    return width > taken + TEXT_FLEX_LEAST ? width - taken : TEXT_FLEX_LEAST;
}

void show_sheet_tell(const struct show_sheet *sheet, struct show_hidden *hidden)
{
    hidden->returns = !sheet->without[COLUMN_RETURNS] && widest(sheet, COLUMN_RETURNS) > 0;
    hidden->metrics = sheet->options->metric_count;
    while (hidden->metrics > 1 && sheet->without[COLUMN_METRICS + hidden->metrics - 2])
        hidden->metrics--;
}

void show_sheet_name(struct show_sheet *sheet, char *name)
{
    sheet->rows[sheet->named++].name = name;
}

// The end of a long file name, with the line, says more than its beginning; of a module, the
// beginning does.
static void put_where(struct text_table *table, const struct show_sheet *sheet, const char *where)
{
    const unsigned width = text_width(where), most = sheet->where_columns;
    if (most == 0 || width <= most) {
        text_table_cell(table, TEXT_DIM, where);
        return;
    }
    const struct text_style style = {.unicode = sheet->options->unicode};
    const char *dots = style.unicode ? "…" : "...";
    char *text = NULL;
    if (!strchr(where, ':'))
        text = text_cut(where, most, &style);
    else if (asprintf(&text, "%s%s", dots, text_skip(where, width - most + text_width(dots))) < 0)
        memory_checked(NULL);
    text_table_cell(table, TEXT_DIM, text);
    free(text);
}

// Columns that are empty take no memory: a tree may have very many rows.
static unsigned used_columns(const struct show_sheet *sheet, unsigned columns[COLUMNS])
{
    unsigned used = 0;
    for (unsigned i = 0; i < COLUMNS; i++)
        if (i == COLUMN_NAME || (sheet->widest[i] > 0 && !sheet->without[i]))
            columns[used++] = i;
    return used;
}

void show_sheet_print(struct show_sheet *sheet, FILE *out)
{
    unsigned columns[COLUMNS];
    const unsigned used = used_columns(sheet, columns);
    enum text_align align[COLUMNS];
    const char *head[COLUMNS];
    for (unsigned i = 0; i < used; i++) {
        align[i] = columns[i] == COLUMN_NAME    ? TEXT_FLEX
                   : columns[i] == COLUMN_WHERE ? TEXT_LEFT
                                                : TEXT_RIGHT;
        head[i] = sheet->head[columns[i]];
    }
    struct text_table *table = text_table_new(used, align, head);
    for (size_t i = 0; i < sheet->count; i++) {
        const struct sheet_row *row = &sheet->rows[i];
        struct sheet_cell cells[COLUMNS];
        format_row(sheet, &row->values, cells);
        for (unsigned j = 0; j < used; j++) {
            const struct sheet_cell *cell = &cells[columns[j]];
            if (columns[j] == COLUMN_WHERE)
                put_where(table, sheet, row->where ? row->where : "");
            else
                text_table_cell(table, cell->tone,
                                columns[j] != COLUMN_NAME ? cell->text.text
                                : row->name               ? row->name
                                                          : "");
        }
    }
    text_table_print(table, out, sheet->style);
    text_table_free(table);
}

char *show_where(const struct functions *functions, uint32_t file, uint32_t line, uint32_t module)
{
    const char *path = functions_file(functions, file);
    const char *module_name = functions_module_name(functions, module);
    char *where = NULL;
    int made = !path ? asprintf(&where, "%s", module_name ? module_name : "")
               : line && line != LINE_SEVERAL ? asprintf(&where, "%s:%u", last_part(path), line)
                                              : asprintf(&where, "%s", last_part(path));
    if (made < 0)
        memory_checked(NULL);
    return where;
}
