// SPDX-License-Identifier: MIT

// The rows of a tree as text: each under what calls it, with lines that lead there.

#include "analyze/report/own_code.h"
#include "analyze/report/row_plan.h"
#include "analyze/report/shared_callers.h"
#include "analyze/report/show_chain.h"
#include "analyze/report/show_row.h"
#include "base/memory.h"

#define GUIDES 24       // levels of indentation that are drawn at most
#define NAME_COLUMNS 26 // a name has at least these, however deep it is
#define NAME_WANTED 48  // if there are that many, nothing else has to give way

struct tree_printer {
    const struct calltree *tree;
    const struct show_options *options;
    const struct text_style *style;
    const struct row_plan *plan;
    struct name_set *names;
    struct show_sheet *sheet;
    struct chain_link *links; // one for each of the plan's
    char **texts;             // per row; text behind a newline takes another row
    unsigned guides;          // levels that are drawn
    bool *last;               // per level: no sibling follows
    size_t last_capacity;
};

static struct chain_link link_of(const struct tree_printer *printer, const struct plan_link *link)
{
    const struct call_node *node = &printer->tree->nodes[link->node];
    return (struct chain_link){
        .function = node->function,
        .times = link->times,
        .recursion = node->recursion,
        .inlined = node->kind == CALL_INLINED,
        .own = is_own_code(printer->tree->functions, printer->options->profile,
                           calltree_function(printer->tree, link->node)),
    };
}

// The lines that lead to a row, or, for what does not fit into the row, past it.
static void put_guides(const struct tree_printer *printer, FILE *out, uint32_t level, bool past)
{
    static const char *const ascii[] = {"| ", "  ", "|-", "`-", ".."};
    static const char *const drawn[] = {"│ ", "  ", "├─", "└─", "⋯ "};
    const char *const *guides = printer->options->unicode ? drawn : ascii;
    if (level == 0)
        return;
    uint32_t from = 1;
    if (level > printer->guides) {
        from = level - printer->guides + 1;
        fputs(guides[4], out);
    }
    for (uint32_t i = from; i < level; i++)
        fputs(guides[printer->last[i] ? 1 : 0], out);
    fputs(guides[(printer->last[level] ? 1 : 0) + (past ? 0 : 2)], out);
    fputc(' ', out);
}

static unsigned indentation(const struct tree_printer *printer, uint32_t level)
{
    if (level > printer->guides)
        level = printer->guides + 1;
    return level == 0 ? 0 : 2 * level + 1;
}

static char *row_where(const struct tree_printer *printer, uint32_t node)
{
    const struct calltree *tree = printer->tree;
    const struct call_node *call = &tree->nodes[node];
    const struct function *function = calltree_function(tree, node);
    if (!tree->sites || !call_is_code(call) || call->call_line == 0)
        return show_where(tree->functions, function->file, function->line, function->module);
    char *where = show_where(tree->functions, call->call_file, call->call_line, MODULE_NONE);
    char *text = NULL;
    if (asprintf(&text, "called at %s", where) < 0)
        memory_checked(NULL);
    free(where);
    return text;
}

static void add_numbers(struct tree_printer *printer, const struct plan_row *row)
{
    const struct calltree *tree = printer->tree;
    const struct show_options *options = printer->options;
    const size_t values = (size_t)row->node * tree->metrics;
    if (row->line != CALL_NONE) {
        const uint64_t *cost = tree->line_values + (size_t)row->line * tree->metrics;
        show_sheet_add(printer->sheet,
                       &(struct show_row){.total = cost, .self = cost, .where = ""});
        return;
    }
    const uint32_t placed =
        options->upward ? printer->plan->links[row->first_link].node : row->node;
    char *where = row_where(printer, placed);
    show_sheet_add(
        printer->sheet,
        &(struct show_row){.total = tree->total + values,
                           .self = tree->self + values,
                           .calls = options->has_calls && call_is_code(&tree->nodes[row->node])
                                        ? tree->self[values + options->calls]
                                        : 0,
                           .returns = calltree_returns(tree, row->node),
                           .spread = options->spread ? &options->spread->rows[row->node] : NULL,
                           .where = where});
    free(where);
}

// Threads and processes have rows of their own, and names that are no names of functions.
static bool is_code_row(const struct tree_printer *printer, const struct plan_row *row)
{
    return call_is_code(&printer->tree->nodes[row->node]);
}

static char *owner_text(const struct tree_printer *printer, uint32_t node, unsigned room)
{
    const char *const thread = printer->tree->nodes[node].kind == CALL_THREAD ? "thread: " : "";
    char *text = NULL;
    if (asprintf(&text, "%s%s", thread, calltree_function(printer->tree, node)->name) < 0)
        memory_checked(NULL);
    char *cut = text_cut(text, room, printer->style);
    free(text);
    return cut;
}

// A chain that ends in what an earlier row shows has room for the sign that says so.
static char *row_chain(const struct tree_printer *printer, const struct plan_row *row,
                       unsigned room)
{
    const struct show_options *options = printer->options;
    const struct chain_link *links = printer->links + row->first_link;
    if (!row->goes_on)
        return chain_text(printer->names, links, row->links, room, options);
    const char *arrow = chain_arrow(options), *gap = chain_gap(options);
    const unsigned sign = text_width(arrow) + text_width(gap);
    char *known =
        chain_text(printer->names, links, row->links, room > sign ? room - sign : room, options);
    char *text = NULL;
    if (asprintf(&text, "%s%s%s", known, arrow, gap) < 0)
        memory_checked(NULL);
    free(known);
    return text;
}

static char *row_text(const struct tree_printer *printer, const struct plan_row *row, unsigned room)
{
    const struct calltree *tree = printer->tree;
    if (row->line == CALL_NONE) {
        const unsigned indent = indentation(printer, row->level);
        const unsigned left = room > indent + 8 ? room - indent : 8;
        if (!is_code_row(printer, row))
            return owner_text(printer, row->node, room ? left : 0);
        return row_chain(printer, row, room ? left : 0);
    }
    const struct call_line *line = &tree->lines[row->line];
    char *where = show_where(tree->functions, line->file, line->line, MODULE_NONE), *text = NULL;
    if (asprintf(&text, "line %s", where) < 0)
        memory_checked(NULL);
    free(where);
    return text;
}

static void name_row(struct tree_printer *printer, const struct plan_row *row, char *rest)
{
    printer->last = memory_grown(printer->last, &printer->last_capacity, (size_t)row->level + 1,
                                 sizeof *printer->last);
    printer->last[row->level] = row->last;
    for (bool past = false; rest; past = true) {
        const char *part = strsep(&rest, "\n");
        char *name = NULL;
        size_t bytes = 0;
        FILE *out = memory_checked(open_memstream(&name, &bytes));
        put_guides(printer, out, row->level, past);
        fprintf(out, "%s%s", past && row->level == 0 ? "  " : "", part);
        fclose(out);
        show_sheet_name(printer->sheet, memory_checked(name));
    }
}

// The columns that names should have: as many as they need, up to a limit.
static unsigned wanted_columns(const struct tree_printer *printer)
{
    unsigned wanted = 0;
    for (size_t i = 0; i < printer->plan->row_count && wanted < NAME_WANTED; i++) {
        const struct plan_row *row = &printer->plan->rows[i];
        if (!is_code_row(printer, row))
            continue;
        const unsigned needed =
            indentation(printer, row->level) +
            chain_width(printer->names, printer->links + row->first_link, row->links);
        if (needed > wanted)
            wanted = needed;
    }
    return wanted < NAME_WANTED ? wanted : NAME_WANTED;
}

static unsigned guides_for(unsigned room)
{
    const unsigned most = room > NAME_COLUMNS ? (room - NAME_COLUMNS) / 2 : 0;
    return room == 0 || most > GUIDES ? GUIDES : most > 2 ? most : 2;
}

// Rows that take more than one line have another of the sheet for each.
static void lay_out(struct tree_printer *printer)
{
    const struct row_plan *plan = printer->plan;
    printer->sheet = show_sheet_new(printer->options, printer->style, printer->options->head);
    for (size_t i = 0; i < plan->row_count; i++)
        add_numbers(printer, &plan->rows[i]);
    printer->guides = GUIDES;
    const unsigned room = show_sheet_lay_out(printer->sheet, wanted_columns(printer));
    printer->guides = guides_for(room);
    for (size_t i = 0; i < plan->row_count; i++)
        printer->texts[i] = row_text(printer, &plan->rows[i], room);
}

// A row, and one without numbers for each line more that its chain takes.
static void add_lines(struct tree_printer *printer, const struct plan_row *row, const char *text)
{
    add_numbers(printer, row);
    for (; (text = strchr(text, '\n')); text++)
        show_sheet_add(printer->sheet, &(struct show_row){.where = ""});
}

static void print_rows(struct tree_printer *printer, FILE *out)
{
    const struct row_plan *plan = printer->plan;
    struct show_sheet *measured = printer->sheet;
    if (printer->options->to_roots)
        printer->sheet = show_sheet_like(measured);
    for (size_t i = 0; i < plan->row_count; i++) {
        if (printer->sheet != measured)
            add_lines(printer, &plan->rows[i], printer->texts[i]);
        name_row(printer, &plan->rows[i], printer->texts[i]);
        free(printer->texts[i]);
    }
    show_sheet_print(printer->sheet, out);
    if (printer->sheet != measured)
        show_sheet_free(measured);
}

void show_tree(FILE *out, const struct text_style *style, const struct calltree *tree,
               struct row_plan *plan, const struct show_options *options)
{
    struct tree_printer printer = {.tree = tree,
                                   .options = options,
                                   .style = style,
                                   .plan = plan,
                                   .names = name_set_new(tree->functions, style),
                                   .links =
                                       memory_array(plan->link_count, sizeof(struct chain_link)),
                                   .texts = memory_array(plan->row_count, sizeof(char *))};
    if (options->to_roots && !options->wide)
        plan->hidden.going_on = cut_shared_callers(plan, tree);
    for (size_t i = 0; i < plan->link_count; i++) {
        printer.links[i] = link_of(&printer, &plan->links[i]);
        if (call_is_code(&tree->nodes[plan->links[i].node]))
            name_set_add(printer.names, printer.links[i].function);
    }
    lay_out(&printer);
    print_rows(&printer, out);
    show_sheet_tell(printer.sheet, &plan->hidden);
    show_sheet_free(printer.sheet);
    name_set_free(printer.names);
    free(printer.links);
    free(printer.texts);
    free(printer.last);
}
