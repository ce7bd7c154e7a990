// SPDX-License-Identifier: MIT

#include "analyze/report/name_set.h"
#include "analyze/report/row_plan.h"
#include "analyze/report/show_row.h"
#include "analyze/tree/build.h"
#include "base/memory.h"

#define FEW_ROWS 2
#define NAME_WANTED 48 // if names have that many columns, nothing else has to give way

static const char *flat_name(const struct flat *flat, const struct functions *functions,
                             const struct flat_row *row)
{
    const char *module = functions_module_name(functions, row->module);
    return flat->by != FLAT_MODULE ? functions_get(functions, row->function)->name
           : module                ? module
                                   : NO_MODULE;
}

static bool has_functions(const struct flat *flat)
{
    return flat->by == FLAT_FUNCTION || flat->by == FLAT_LINE || flat->by == FLAT_FILE;
}

// Of a row that stands for several threads or processes: "worker-* (8)". To be freed.
static char *owner_name(const char *name, const struct show_options *options)
{
    char *text = NULL;
    for (size_t i = 0; options->owners && i < options->owners->count; i++) {
        const struct name_sum *owner = &options->owners->sums[i];
        if (owner->members > 1 && strcmp(owner->name, name) == 0 &&
            asprintf(&text, "%s (%s)", name, text_count(owner->members).text) < 0)
            memory_checked(NULL);
    }
    return text ? text : memory_text(name);
}

// Names that have a width in common.
struct name_column {
    struct name_set *names; // of functions
    unsigned room;
    const struct text_style *style;
};

static char *owner_in_column(const struct name_column *column, const struct show_options *options,
                             const char *name)
{
    char *owner = owner_name(name, options), *fitted = text_cut(owner, column->room, column->style);
    free(owner);
    return fitted;
}

static char *name_in_column(const struct name_column *column, const struct flat *flat,
                            const struct flat_row *row, const char *name)
{
    const unsigned room = column->room;
    const char *inlined = row->inlined ? " [inlined]" : "";
    const char *full = text_safe(name);
    if (room > 0 && text_width(full) + text_width(inlined) > room)
        inlined = "";
    const unsigned left = room - text_width(inlined);
    char *cut = has_functions(flat) ? NULL : text_cut(name, room, column->style), *text = NULL;
    if (asprintf(&text, "%s%s",
                 cut         ? cut
                 : room == 0 ? full
                             : name_set_fit(column->names, row->function, left),
                 inlined) < 0)
        memory_checked(NULL);
    free(cut);
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

static void add_row(struct show_sheet *sheet, const struct flat *flat,
                    const struct functions *functions, const struct show_options *options,
                    uint32_t number)
{
    const struct flat_row *row = &flat->rows[number];
    const struct function *function = functions_get(functions, row->function);
    const size_t values = (size_t)number * flat->metrics;
    const bool by_line = flat->by == FLAT_LINE;
    char *where = !has_functions(flat)
                      ? memory_text("")
                      : show_where(functions, by_line ? row->file : function->file,
                                   by_line ? row->line : function->line, row->module);
    show_sheet_add(
        sheet, &(struct show_row){.total = flat->total + values,
                                  .self = flat->self + values,
                                  .one_value = flat_is_by_owner(flat->by),
                                  .calls = flat_calls(flat, options, number),
                                  .returns = row->returns,
                                  .spread = options->spread ? &options->spread->rows[number] : NULL,
                                  .where = where});
    free(where);
}

static uint64_t cost_of(const struct flat *flat, const struct show_options *options, uint32_t row)
{
    const uint64_t *values = options->order == ORDER_SELF ? flat->self : flat->total;
    return values[(size_t)row * flat->metrics + options->metric];
}

// Rows that cost something beyond those that are shown, if they are few: to say that they are left
// out takes as much room as they do.
static size_t few_left(const struct flat *flat, const struct show_options *options, size_t shown)
{
    size_t left = 0;
    while (shown + left < flat->count && cost_of(flat, options, flat->order[shown + left]) > 0)
        left++;
    return left <= FEW_ROWS ? left : 0;
}

// How many rows cost enough: they come first.
static size_t shown_rows(const struct flat *flat, const struct show_options *options,
                         double *percent)
{
    uint64_t least = options->least;
    size_t shown = 0;
    *percent = options->least_percent;
    while (shown < flat->count && cost_of(flat, options, flat->order[shown]) >= least &&
           cost_of(flat, options, flat->order[shown]) > 0)
        shown++;
    while (options->may_raise && shown > PLAN_ROWS && plan_next_percent(*percent) > *percent) {
        *percent = plan_next_percent(*percent);
        least = show_least(options, *percent);
        while (shown > 0 && cost_of(flat, options, flat->order[shown - 1]) < least)
            shown--;
    }
    return options->may_raise ? shown + few_left(flat, options, shown) : shown;
}

static struct show_hidden count_hidden(const struct flat *flat, const struct show_options *options,
                                       size_t shown)
{
    struct show_hidden hidden = {0};
    for (size_t i = shown; i < flat->count; i++) {
        const size_t value = (size_t)flat->order[i] * flat->metrics + options->metric;
        hidden.small_count += flat->self[value] || flat->total[value];
        hidden.small_cost += flat->self[value];
    }
    return hidden;
}

struct show_hidden show_flat(FILE *out, const struct text_style *style, const struct flat *flat,
                             const struct functions *functions, const struct show_options *options)
{
    static const char *const heads[] = {"function", "function", "module", "thread",
                                        "process",  "program",  "file"};
    double percent = 0;
    const size_t shown = shown_rows(flat, options, &percent);
    struct show_hidden hidden = count_hidden(flat, options, shown);
    hidden.least_percent = hidden.library_percent = percent;
    struct show_sheet *sheet = show_sheet_new(options, style, heads[flat->by]);
    struct name_set *names = name_set_new(functions, style);
    unsigned wanted = 0;
    for (size_t i = 0; i < shown; i++) {
        const struct flat_row *row = &flat->rows[flat->order[i]];
        add_row(sheet, flat, functions, options, flat->order[i]);
        if (has_functions(flat))
            name_set_add(names, row->function);
        const unsigned width = text_width(text_safe(flat_name(flat, functions, row)));
        wanted = width > wanted ? width : wanted;
    }
    const struct name_column column = {
        .names = names,
        .room = show_sheet_lay_out(sheet, wanted < NAME_WANTED ? wanted : NAME_WANTED),
        .style = style,
    };
    for (size_t i = 0; i < shown; i++) {
        const struct flat_row *row = &flat->rows[flat->order[i]];
        const char *name = flat_name(flat, functions, row);
        show_sheet_name(sheet, flat_is_by_owner(flat->by)
                                   ? owner_in_column(&column, options, name)
                                   : name_in_column(&column, flat, row, name));
    }
    show_sheet_print(sheet, out);
    show_sheet_tell(sheet, &hidden);
    show_sheet_free(sheet);
    name_set_free(names);
    return hidden;
}
