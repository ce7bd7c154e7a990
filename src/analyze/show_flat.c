// SPDX-License-Identifier: MIT

#include "analyze/build.h"
#include "analyze/show_row.h"
#include "base/memory.h"

struct text_table *show_table(const struct show_options *options, const char *name_head)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT,
                                            TEXT_RIGHT, TEXT_FLEX,  TEXT_LEFT};
    const char *head[] = {
        "total", "", "self", options->calls ? "calls" : "returns", name_head, "where",
    };
    return text_table_new(6, align, head);
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
    text_table_cell(table, hot ? TEXT_HOT : TEXT_PLAIN,
                    (double)row->self >= 0.0005 * whole && row->self
                        ? text_percent((double)row->self, whole).text
                        : "");
    text_table_cell(table, TEXT_DIM, row->passes ? text_count(row->passes).text : "");
    text_table_cell(table, hot ? TEXT_BOLD : TEXT_PLAIN, row->name);
    text_table_cell(table, TEXT_DIM, row->where);
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

static char *row_name(const struct flat *flat, const struct functions *functions,
                      const struct flat_row *row)
{
    const struct function *function = functions_get(functions, row->function);
    const char *module = functions_module(functions, row->module);
    const char *name = flat->by != FLAT_MODULE ? function->name : module ? module : NO_PATH;
    char *text = NULL;
    if (asprintf(&text, "%s%s", name, row->inlined ? " [inlined]" : "") < 0)
        memory_checked(NULL);
    return text;
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
        char *name = row_name(flat, functions, row);
        char *where = !placed ? memory_text("")
                              : show_where(functions, by_line ? row->file : function->file,
                                           by_line ? row->line : function->line, row->module);
        bool one_value = flat->by == FLAT_THREAD || flat->by == FLAT_PROCESS;
        show_row(table, options,
                 &(struct show_row){.total = flat->total[value],
                                    .self = one_value ? 0 : flat->self[value],
                                    .passes = row->passes,
                                    .name = name,
                                    .where = where});
        free(name);
        free(where);
    }
    text_table_print(table, out, style);
    text_table_free(table);
}
