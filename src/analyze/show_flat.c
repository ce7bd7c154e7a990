// SPDX-License-Identifier: MIT

#include "analyze/build.h"
#include "analyze/show_row.h"
#include "base/memory.h"

#define NUMBER_COLUMNS 27 // what the columns before the names take at most, gaps included
#define COUNT_COLUMNS 11
#define ERROR_COLUMNS 7

struct text_table *show_table(const struct show_options *options, const char *name_head)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT,
                                            TEXT_RIGHT, TEXT_RIGHT, TEXT_FLEX,  TEXT_LEFT};
    const char *head[] = {
        options->counts_calls ? "below" : "total",
        "",
        "self",
        "calls",
        "per call",
        "returns",
        name_head,
        "where",
    };
    return text_table_new(8, align, head);
}

// The end of a long file name, with the line, says more than its beginning.
static void put_where(struct text_table *table, const struct show_options *options,
                      const char *where)
{
    where = text_safe(where);
    unsigned width = text_width(where);
    if (!options->narrow || width <= SHOW_WHERE_COLUMNS) {
        text_table_cell(table, TEXT_DIM, where);
        return;
    }
    char *text = NULL;
    if (asprintf(&text, "...%s", text_skip(where, width - SHOW_WHERE_COLUMNS + 3)) < 0)
        memory_checked(NULL);
    text_table_cell(table, TEXT_DIM, text);
    free(text);
}

// The share of a function alone, with its bound where there is one: "12.3 % ±0.1".
static struct text_number self_share(const struct show_options *options, const struct show_row *row)
{
    struct text_number cell = {""};
    const double whole = (double)options->whole;
    if ((double)row->self < 0.0005 * whole || row->self == 0)
        return cell;
    cell = text_percent((double)row->self, whole);
    const double error = whole > 0 ? 100 * (double)row->error / whole : 0;
    const size_t length = strlen(cell.text);
    // What rounding hides anyway is not worth a column.
    if (options->has_error && error >= 0.005)
        snprintf(cell.text + length, sizeof cell.text - length,
                 error < 0.095 ? " %s%.2f" : " %s%.1f", options->unicode ? "±" : "+-", error);
    return cell;
}

void show_row(struct text_table *table, const struct show_options *options,
              const struct show_row *row)
{
    double whole = (double)options->whole;
    bool hot = whole > 0 && (double)row->self >= 0.05 * whole;
    bool warm = whole > 0 && (double)row->total >= 0.10 * whole;
    text_table_cell(table, warm ? TEXT_WARM : TEXT_PLAIN,
                    text_percent((double)row->total, whole).text);
    text_table_cell(table, TEXT_DIM, text_amount(row->total, options->unit).text);
    text_table_cell(table, hot ? TEXT_HOT : TEXT_PLAIN, self_share(options, row).text);
    bool calls = options->has_calls && row->calls > 0;
    bool per_call = calls && !options->counts_calls && row->total > 0;
    // Real calls say more than returns between samples do.
    bool returns = !options->has_calls && row->returns > 0;
    text_table_cell(table, TEXT_DIM, calls ? text_count(row->calls).text : "");
    text_table_cell(
        table, TEXT_PLAIN,
        per_call
            ? text_amount(
                  (uint64_t)(show_per_call(options, options->metric, row->total, row->calls) + 0.5),
                  options->unit)
                  .text
            : "");
    text_table_cell(table, TEXT_DIM, returns ? text_count(row->returns).text : "");
    text_table_cell(table, hot ? TEXT_BOLD : TEXT_PLAIN, row->name);
    put_where(table, options, row->where);
}

unsigned show_room(const struct show_options *options, const struct text_style *style,
                   unsigned indent)
{
    unsigned taken = NUMBER_COLUMNS + SHOW_WHERE_COLUMNS + 2 + indent;
    if (options->has_calls)
        taken += options->counts_calls ? COUNT_COLUMNS : 2 * COUNT_COLUMNS;
    else if (options->has_returns)
        taken += COUNT_COLUMNS;
    if (options->has_error)
        taken += ERROR_COLUMNS;
    if (style->width == 0)
        return 0;
    return style->width > taken + SHOW_LEAST_NAME ? style->width - taken : SHOW_LEAST_NAME;
}

char *show_where(const struct functions *functions, uint32_t file, uint32_t line, uint32_t module)
{
    const char *path = functions_file(functions, file);
    const char *module_name = functions_module(functions, module);
    char *where = NULL;
    int made = !path ? asprintf(&where, "%s", module_name ? module_name : "")
               : line && line != LINE_SEVERAL ? asprintf(&where, "%s:%u", last_part(path), line)
                                              : asprintf(&where, "%s", last_part(path));
    if (made < 0)
        memory_checked(NULL);
    return where;
}

// Leaves out what stands between the outermost angle brackets. Those of operators are no brackets.
static char *without_arguments(const char *name, const char *dots)
{
    char *text = NULL;
    size_t bytes = 0;
    unsigned depth = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (const char *at = name; *at; at++) {
        if (strncmp(at, "operator", 8) == 0) {
            size_t length = 8 + strspn(at + 8, "<>-=");
            if (depth == 0)
                fwrite(at, 1, length, out);
            at += length - 1;
            continue;
        }
        bool closes = *at == '>' && depth > 0 && at[-1] != '-';
        depth -= closes;
        if (depth == 0)
            fputc(*at, out);
        if (*at == '<' && depth++ == 0)
            fputs(dots, out);
    }
    fclose(out);
    return memory_checked(text);
}

// Of "module+0x1f00", a function without a name, the module can be missed, the number cannot.
static char *cut_module(const char *name, unsigned width, const struct text_style *style)
{
    const char *number = strstr(name, "+0x");
    const unsigned digits = number ? text_width(number) : 0;
    if (!number || number[3 + strspn(number + 3, "0123456789abcdef")] != '\0' || digits >= width)
        return NULL;
    char *module = memory_text(name), *cut = NULL;
    module[number - name] = '\0';
    char *shorter = text_cut(module, width - digits, style);
    if (asprintf(&cut, "%s%s", shorter, number) < 0)
        memory_checked(NULL);
    free(module);
    free(shorter);
    return cut;
}

char *show_name(const char *name, unsigned width, const struct text_style *style)
{
    name = text_safe(name);
    if (width == 0 || text_width(name) <= width)
        return memory_text(name);
    char *numbered = cut_module(name, width, style);
    if (numbered)
        return numbered;
    char *shorter = without_arguments(name, style->unicode ? "…" : "..");
    char *cut = text_cut(shorter, width, style);
    free(shorter);
    return cut;
}

static char *row_name(const struct flat *flat, const struct functions *functions,
                      const struct flat_row *row, const struct show_options *options,
                      const struct text_style *style)
{
    const struct function *function = functions_get(functions, row->function);
    const char *module = functions_module(functions, row->module);
    const char *name = flat->by != FLAT_MODULE ? function->name : module ? module : NO_PATH;
    const char *inlined = row->inlined ? " [inlined]" : "";
    char *shown = show_name(name, show_room(options, style, text_width(inlined)), style);
    char *text = NULL;
    if (asprintf(&text, "%s%s", shown, inlined) < 0)
        memory_checked(NULL);
    free(shown);
    return text;
}

// Only functions are called.
static uint64_t flat_calls(const struct flat *flat, const struct show_options *options,
                           uint32_t row)
{
    return flat->by == FLAT_FUNCTION && options->has_calls
               ? flat->self[(size_t)row * flat->metrics + options->calls]
               : 0;
}

void show_flat(FILE *out, const struct text_style *style, const struct flat *flat,
               const struct functions *functions, const struct show_options *options,
               struct show_hidden *hidden)
{
    static const char *const heads[] = {"function", "function", "module", "thread", "process"};
    *hidden = (struct show_hidden){0};
    const uint64_t *values = options->order == ORDER_SELF ? flat->self : flat->total;
    struct text_table *table = show_table(options, heads[flat->by]);
    for (size_t i = 0; i < flat->count; i++) {
        uint32_t number = flat->order[i];
        const struct flat_row *row = &flat->rows[number];
        size_t value = (size_t)number * flat->metrics + options->metric;
        if (values[value] < options->least || values[value] == 0) {
            hidden->small_count += flat->self[value] || flat->total[value];
            hidden->small_cost += flat->self[value];
            continue;
        }
        const struct function *function = functions_get(functions, row->function);
        bool by_line = flat->by == FLAT_LINE, placed = by_line || flat->by == FLAT_FUNCTION;
        char *name = row_name(flat, functions, row, options, style);
        char *where = !placed ? memory_text("")
                              : show_where(functions, by_line ? row->file : function->file,
                                           by_line ? row->line : function->line, row->module);
        bool one_value = flat->by == FLAT_THREAD || flat->by == FLAT_PROCESS;
        show_row(table, options,
                 &(struct show_row){
                     .total = flat->total[value],
                     .self = one_value ? 0 : flat->self[value],
                     .calls = flat_calls(flat, options, number),
                     .error = options->has_error
                                  ? flat->self[(size_t)number * flat->metrics + options->error]
                                  : 0,
                     .returns = row->returns,
                     .name = name,
                     .where = where});
        free(name);
        free(where);
    }
    text_table_print(table, out, style);
    text_table_free(table);
}
