// SPDX-License-Identifier: MIT

#include "analyze/diff/diff_show.h"
#include "analyze/names/short_name.h"
#include "analyze/report/name_set.h"
#include "base/memory.h"
#include "base/text/wrap.h"
#include <math.h>

enum {
    NAMED_ROWS = 20, // significant rows that are shown; JSON has all
    NOISE_ROWS = 5,
    PATH_NAME = 32, // columns of a name on a path
    PATH_INDENT = 4,
};

struct printing {
    FILE *out;
    const struct text_style *style;
    const struct diff_shown *shown;
};

// Numbers

static struct text_number amount(const struct diff_shown *shown, double value)
{
    const struct diff *diff = shown->diff;
    struct text_number number;
    if (!diff->normalized)
        return text_amount((uint64_t)(fabs(value) + 0.5), diff->metrics[diff->metric].unit);
    snprintf(number.text, sizeof number.text, "%.2f %%",
             100 * fabs(value) / shown->rows->total[DIFF_OLD]);
    return number;
}

static struct text_number signed_amount(const struct diff_shown *shown, double value)
{
    struct text_number number = amount(shown, 0), unsigned_number = amount(shown, value);
    if (strcmp(number.text, unsigned_number.text) != 0)
        snprintf(number.text, sizeof number.text, "%s%.30s", value < 0 ? "-" : "+",
                 unsigned_number.text);
    return number;
}

static struct text_number relative(double change, double old)
{
    struct text_number number = {""};
    const double percent = 100 * change / old;
    if (isfinite(percent))
        snprintf(number.text, sizeof number.text, fabs(percent) < 9.95 ? "%+.1f %%" : "%+.0f %%",
                 percent);
    return number;
}

static struct text_number change_of_row(const struct diff_row *row)
{
    if (row->presence != DIFF_BOTH)
        return (struct text_number){.text = {0}};
    return relative(diff_row_change(row), row->cost[DIFF_OLD]);
}

static const char *presence_word(const struct diff_row *row)
{
    return row->presence == DIFF_IS_NEW ? "new" : row->presence == DIFF_IS_GONE ? "gone" : NULL;
}

// Paths

static const char *arrow(const struct text_style *style)
{
    return style->unicode ? " → " : " > ";
}

char *diff_path_text(const struct diff *diff, uint32_t node, unsigned width,
                     const struct text_style *style)
{
    const struct calltree *tree = diff->tree;
    const char *between = arrow(style), *dots = style->unicode ? "…" : "...";
    char *text = memory_text("");
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent) {
        const char *full = calltree_function(tree, at)->name;
        const uint32_t above = tree->nodes[at].parent;
        // Start-up code is what nothing but start-up code calls.
        if (at != node && name_is_startup(full) &&
            (above == 0 || name_is_startup(calltree_function(tree, above)->name)))
            break;
        char *name = name_in_columns(full, width ? PATH_NAME : 0, style), *longer = NULL;
        const unsigned taken = text_width(text_safe(name)) + text_width(between) + text_width(text);
        const bool fits = !*text || width == 0 || taken + text_width(dots) + 3 <= width;
        if (asprintf(&longer, "%s%s%s", fits ? name : dots, *text ? between : "", text) < 0)
            memory_checked(NULL);
        free(name);
        free(text);
        text = longer;
        if (!fits)
            break;
    }
    return text;
}

static const char *function_name(const struct diff_shown *shown, const struct diff_row *row)
{
    return row->node == 0 ? "everything else"
                          : calltree_function(shown->diff->tree, row->node)->name;
}

// Sentences

static void put_metric(const struct printing *printing, FILE *text)
{
    const struct diff *diff = printing->shown->diff;
    const struct diff_rows *rows = printing->shown->rows;
    const struct diff_metric *metric = &diff->metrics[diff->metric];
    const double old = rows->total[DIFF_OLD], new = rows->total[DIFF_NEW];
    if (diff->normalized) {
        fprintf(text, "Shares of all %s.", metric->name);
        return;
    }
    fprintf(text, "%s ", metric->name);
    if (old == new) {
        fprintf(text, "stayed at %s.", amount(printing->shown, old).text);
        return;
    }
    fprintf(text, "%s from %s to %s", new > old ? "rose" : "fell",
            amount(printing->shown, old).text, amount(printing->shown, new).text);
    if (old > 0)
        fprintf(text, " (%s)", relative(new - old, old).text);
    fprintf(text, "%s.", rows->total_significant ? "" : ", which may be noise as a whole");
}

// "4 ms from more calls (1,000, then 1,040), 98 ms from costlier ones".
static void put_reason(const struct printing *printing, const struct diff_row *row, FILE *text)
{
    const struct diff_shown *shown = printing->shown;
    if (!shown->rows->has_calls || row->presence != DIFF_BOTH)
        return;
    const double calls = row->calls[DIFF_NEW] - row->calls[DIFF_OLD];
    if (calls == 0 && row->by_calls == 0) {
        fprintf(text, ": as many calls (%s), each %s",
                text_count((uint64_t)(row->calls[DIFF_OLD] + 0.5)).text,
                row->by_price < 0 ? "cheaper" : "costlier");
        return;
    }
    fprintf(text, ": %s from ", signed_amount(shown, row->by_calls).text);
    if (calls == 0 && row->by_calls != 0)
        fprintf(text, "%s calls below it", row->by_calls < 0 ? "fewer" : "more");
    else
        fprintf(text, "%s calls (%s, then %s)", calls < 0 ? "fewer" : "more",
                text_count((uint64_t)(row->calls[DIFF_OLD] + 0.5)).text,
                text_count((uint64_t)(row->calls[DIFF_NEW] + 0.5)).text);
    fprintf(text, ", %s from %s ones", signed_amount(shown, row->by_price).text,
            row->by_price < 0 ? "cheaper" : "costlier");
}

static void put_culprit(const struct printing *printing, const struct diff_row *row, FILE *text)
{
    const struct diff_shown *shown = printing->shown;
    char *path = diff_path_text(shown->diff, row->node, 0, printing->style);
    const double change = diff_row_change(row);
    char *name = name_in_columns(function_name(shown, row), PATH_NAME, printing->style);
    fprintf(text, " %s costs %s %s", name, amount(shown, change).text,
            change > 0 ? "more" : "less");
    if (presence_word(row))
        fprintf(text, " and is %s", presence_word(row));
    else if (*change_of_row(row).text)
        fprintf(text, " (%s)", change_of_row(row).text);
    put_reason(printing, row, text);
    if (*path)
        fprintf(text, "; the path is %s", path);
    fputs(".", text);
    free(name);
    free(path);
}

static const struct diff_row *next_named(const struct diff_rows *rows, size_t *at)
{
    while (*at < rows->count && !rows->rows[*at].significant)
        (*at)++;
    return *at < rows->count ? &rows->rows[(*at)++] : NULL;
}

char *diff_sentence(const struct diff_shown *shown, const struct text_style *style)
{
    const struct printing printing = {.style = style, .shown = shown};
    const struct diff_rows *rows = shown->rows;
    char *line = NULL;
    size_t bytes = 0, at = 0;
    FILE *text = memory_checked(open_memstream(&line, &bytes));
    put_metric(&printing, text);
    const struct diff_row *row = next_named(rows, &at);
    if (row) {
        put_culprit(&printing, row, text);
    } else if (rows->count > 0) {
        fprintf(text, " No %s changed beyond noise, at a confidence of %g %%.",
                rows->by == DIFF_BY_CONTEXT ? "path" : "function", shown->confidence);
    }
    fclose(text);
    return memory_checked(line);
}

static void put_sentence(const struct printing *printing)
{
    char *line = diff_sentence(printing->shown, printing->style);
    struct text_style style = *printing->style;
    style.width = style.width ? style.width : WRAP_USUAL_WIDTH;
    wrap_print(printing->out, &style, TEXT_BOLD, line, 0);
    free(line);
}

// The table

enum {
    COLUMN_CHANGE,
    COLUMN_RELATIVE,
    COLUMN_OLD,
    COLUMN_NEW,
    COLUMN_BY_CALLS,
    COLUMN_BY_PRICE,
    COLUMN_FUNCTION,
    COLUMN_COUNT
};

static enum text_tone tone_of(const struct diff_row *row)
{
    if (!row->significant)
        return TEXT_DIM;
    return diff_row_change(row) > 0 ? TEXT_HOT : TEXT_COOL;
}

static void add_cells(const struct printing *printing, struct text_table *table,
                      const struct diff_row *row)
{
    const struct diff_shown *shown = printing->shown;
    const enum text_tone tone = tone_of(row), plain = row->significant ? TEXT_PLAIN : TEXT_DIM;
    const bool split = shown->rows->has_calls && row->presence == DIFF_BOTH;
    text_table_cell(table, tone, signed_amount(shown, diff_row_change(row)).text);
    text_table_cell(table, tone, presence_word(row) ? presence_word(row) : change_of_row(row).text);
    text_table_cell(table, plain, amount(shown, row->cost[DIFF_OLD]).text);
    text_table_cell(table, plain, amount(shown, row->cost[DIFF_NEW]).text);
    text_table_cell(table, plain, split ? signed_amount(shown, row->by_calls).text : "");
    text_table_cell(table, plain, split ? signed_amount(shown, row->by_price).text : "");
    char *name = name_in_columns(function_name(shown, row), PATH_NAME, printing->style);
    text_table_cell(table, plain, name);
    free(name);
}

static void put_path_line(const struct printing *printing, const struct diff_row *row)
{
    const unsigned width = printing->style->width;
    char below[64] = "";
    if (row->contexts > 1)
        snprintf(below, sizeof below, ", with %s context%s below",
                 text_count(row->contexts - 1).text, text_plural(row->contexts - 1));
    const unsigned taken = PATH_INDENT + (unsigned)strlen(below);
    char *path =
        diff_path_text(printing->shown->diff, row->node,
                       width ? (width > taken + 20 ? width - taken : 20) : 0, printing->style);
    char *line = NULL;
    if (asprintf(&line, "%*s%s%s", PATH_INDENT, "", *path ? path : "all that is left", below) < 0)
        memory_checked(NULL);
    text_put(printing->out, printing->style, TEXT_DIM, line);
    putc('\n', printing->out);
    free(line);
    free(path);
}

// Prints a table, and below each row that is named its path. Without colours, a line says which
// rows are noise.
static void put_lines(const struct printing *printing, const struct text_table *table,
                      const struct diff_row *const *rows, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *lines = memory_checked(open_memstream(&text, &bytes));
    text_table_print(table, lines, printing->style);
    fclose(lines);
    char *rest = memory_checked(text);
    fprintf(printing->out, "%s\n", strsep(&rest, "\n"));
    for (size_t i = 0; i < count && rest; i++) {
        if (!rows[i]->significant && (i == 0 || rows[i - 1]->significant)) {
            text_put(printing->out, printing->style, TEXT_DIM, "may be noise:");
            putc('\n', printing->out);
        }
        fprintf(printing->out, "%s\n", strsep(&rest, "\n"));
        if (rows[i]->significant && printing->shown->rows->by == DIFF_BY_CONTEXT)
            put_path_line(printing, rows[i]);
    }
    free(text);
}

static size_t choose_rows(const struct diff_rows *rows, const struct diff_row **chosen)
{
    size_t count = 0;
    for (size_t i = 0, named = 0; i < rows->count && named < NAMED_ROWS; i++)
        if (rows->rows[i].significant) {
            chosen[count++] = &rows->rows[i];
            named++;
        }
    for (size_t i = 0, noise = 0; i < rows->count && noise < NOISE_ROWS; i++)
        if (!rows->rows[i].significant) {
            chosen[count++] = &rows->rows[i];
            noise++;
        }
    return count;
}

static void put_table(const struct printing *printing)
{
    static const enum text_align align[COLUMN_COUNT] = {
        TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_FLEX};
    static const char *const head[COLUMN_COUNT] = {"change",   "",         "old",     "new",
                                                   "by calls", "per call", "function"};
    const struct diff_row *chosen[NAMED_ROWS + NOISE_ROWS];
    const size_t count = choose_rows(printing->shown->rows, chosen);
    if (count == 0)
        return;
    struct text_table *table = text_table_new(COLUMN_COUNT, align, head);
    for (size_t i = 0; i < count; i++)
        add_cells(printing, table, chosen[i]);
    putc('\n', printing->out);
    put_lines(printing, table, chosen, count);
    text_table_free(table);
}

// Below the table

static void put_foot(const struct printing *printing)
{
    const struct diff *diff = printing->shown->diff;
    const struct diff_rows *rows = printing->shown->rows;
    char *line = NULL;
    size_t bytes = 0;
    FILE *text = memory_checked(open_memstream(&line, &bytes));
    if (rows->significant > NAMED_ROWS)
        fprintf(text, "%s more rows changed: --json has them. ",
                text_count(rows->significant - NAMED_ROWS).text);
    const size_t noise = rows->count - rows->significant;
    if (noise > NOISE_ROWS)
        fprintf(text, "%s more rows differ by noise alone. ", text_count(noise - NOISE_ROWS).text);
    if (diff->rebuilt > 0)
        fprintf(text, "%u module%s of different builds, lined up by names. ", diff->rebuilt,
                diff->rebuilt == 1 ? " is" : "s are");
    if (rows->count > 0 && diff->run_count == DIFF_SIDES && !diff->metrics[diff->metric].exact)
        fprintf(text,
                "With one run a side, the cost of the same code is taken to vary by %.0f %% from "
                "run to run; several runs show how far it does: cairn diff OLD,OLD2 NEW,NEW2.",
                100 * rows->spread);
    else if (rows->count > 0 && !diff->metrics[diff->metric].exact)
        fprintf(text, "The cost of the same code varies by %.0f %% from run to run. ",
                100 * rows->spread);
    fclose(text);
    struct text_style style = *printing->style;
    style.width = style.width ? style.width : WRAP_USUAL_WIDTH;
    memory_checked(line);
    if (*line) {
        putc('\n', printing->out);
        wrap_print(printing->out, &style, TEXT_DIM, line, 0);
    }
    free(line);
}

static bool is_repeated(const struct diff *diff, unsigned run, const char *problem)
{
    const char *other;
    for (unsigned r = 0; r < run; r++)
        for (unsigned at = 0; (other = diff_problem(diff, r, &at));)
            if (strcmp(problem, other) == 0)
                return true;
    return false;
}

bool diff_print_problems(FILE *out, const struct text_style *style, const struct diff *diff)
{
    const char *problem;
    bool any = false;
    struct text_style wrapped = *style;
    wrapped.width = wrapped.width ? wrapped.width : WRAP_USUAL_WIDTH;
    for (unsigned r = 0; r < diff->run_count; r++)
        for (unsigned at = 0; (problem = diff_problem(diff, r, &at));) {
            char *line = NULL;
            if (is_repeated(diff, r, problem))
                continue;
            if (asprintf(&line, "Note: %s: %s", diff->runs[r].path, problem) < 0)
                memory_checked(NULL);
            wrap_print(out, &wrapped, TEXT_WARM, line, 0);
            free(line);
            any = true;
        }
    return any;
}

void diff_print(FILE *out, const struct text_style *style, const struct diff_shown *shown)
{
    const struct printing printing = {.out = out, .style = style, .shown = shown};
    // Functions without a name seem gone or new: that comes before what the rest says of them.
    if (diff_print_problems(out, style, shown->diff))
        putc('\n', out);
    put_sentence(&printing);
    put_table(&printing);
    put_foot(&printing);
}
