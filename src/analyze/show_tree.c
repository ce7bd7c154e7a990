// SPDX-License-Identifier: MIT

// A tree as rows. Only branches indent: a chain of calls that goes nowhere else takes one row, so
// that what lies 300 calls deep is still on the screen.

#include "analyze/show_row.h"
#include "base/memory.h"

#define CHAIN_NAMES 8    // names in a row; more are cut out of the middle
#define CHAIN_HEAD 2     // of these, before the cut
#define NAME_IN_CHAIN 40 // columns of a name that is not alone in its row
#define GUIDES 24        // levels of indentation that are drawn
#define CUT_COLUMNS 14   // of "… 123 more …" and an arrow

struct link {
    uint32_t node;
    unsigned times; // the same function again and again
};

struct tree_printer {
    const struct calltree *tree;
    const struct show_options *options;
    const struct text_style *style;
    struct show_hidden *hidden;
    struct text_table *table;
    uint32_t *level; // per node: how far it is indented
    bool *chained;   // per node: shares the row of its only child
    bool *last;      // per level: no sibling follows
    size_t last_capacity;
    struct link *chain;
    size_t chain_count, chain_capacity;
    uint32_t *first_line, *lines;
};

static uint64_t cost_of(const struct tree_printer *printer, uint32_t node)
{
    const struct show_options *options = printer->options;
    return options->order == ORDER_SELF ? calltree_self(printer->tree, node, options->metric)
                                        : calltree_total(printer->tree, node, options->metric);
}

static bool is_small(const struct tree_printer *printer, uint32_t node)
{
    uint64_t cost = cost_of(printer, node);
    return cost < printer->options->least || cost == 0;
}

// Children are sorted by cost: those that are shown come first.
static bool is_shown_child(const struct tree_printer *printer, uint32_t parent, uint32_t position)
{
    const struct calltree *tree = printer->tree;
    uint32_t child = tree->first[parent] + position;
    return child < tree->first[parent + 1] && !is_small(printer, tree->children[child]);
}

// Whether nearly all of a node's cost is that of its only child. (A thousandth less would print the
// same.)
static bool is_passage(const struct tree_printer *printer, uint32_t node)
{
    const struct calltree *tree = printer->tree;
    if (!printer->options->fold || !call_is_code(&tree->nodes[node]) ||
        !is_shown_child(printer, node, 0) || is_shown_child(printer, node, 1))
        return false;
    uint32_t child = tree->children[tree->first[node]];
    unsigned metric = printer->options->metric;
    uint64_t total = calltree_total(tree, node, metric), self = calltree_self(tree, node, metric);
    if (calltree_total(tree, child, metric) < total - total / 1000)
        return false;
    // Upwards, both are costs of the same function; downwards, self is the child's own.
    return !printer->options->upward || calltree_self(tree, child, metric) >= self - self / 1000;
}

static void add_link(struct tree_printer *printer, uint32_t node)
{
    if (printer->chain_count > 0) {
        struct link *previous = &printer->chain[printer->chain_count - 1];
        if (printer->tree->nodes[previous->node].function == printer->tree->nodes[node].function) {
            previous->node = node;
            previous->times++;
            return;
        }
    }
    printer->chain = memory_grown(printer->chain, &printer->chain_capacity,
                                  printer->chain_count + 1, sizeof *printer->chain);
    printer->chain[printer->chain_count++] = (struct link){.node = node, .times = 1};
}

static char *link_name(const struct tree_printer *printer, const struct link *link, unsigned room)
{
    const struct calltree *tree = printer->tree;
    const struct function *function = calltree_function(tree, link->node);
    const char *inlined = tree->nodes[link->node].kind == CALL_INLINED ? " [inlined]" : "";
    const char *thread = tree->nodes[link->node].kind == CALL_THREAD ? "thread: " : "";
    unsigned width = room > text_width(inlined) ? room - text_width(inlined) : room;
    if (printer->chain_count > 1 && (width == 0 || width > NAME_IN_CHAIN))
        width = NAME_IN_CHAIN;
    char *name = show_name(function->name, printer->options->wide ? 0 : width, printer->style);
    char times[24] = "";
    if (link->times > 1)
        snprintf(times, sizeof times, " %s%u", printer->style->unicode ? "×" : "x", link->times);
    char *text = NULL;
    if (asprintf(&text, "%s%s%s%s", thread, name, times, inlined) < 0)
        memory_checked(NULL);
    free(name);
    return text;
}

static void put_guides(const struct tree_printer *printer, FILE *out, uint32_t level)
{
    static const char *const ascii[] = {"| ", "  ", "|-", "`-", ".."};
    static const char *const drawn[] = {"│ ", "  ", "├─", "└─", "⋯ "};
    const char *const *guides = printer->style->unicode ? drawn : ascii;
    if (level == 0)
        return;
    uint32_t from = 1;
    if (level > GUIDES) {
        from = level - GUIDES + 1;
        fputs(guides[4], out);
    }
    for (uint32_t i = from; i < level; i++)
        fputs(guides[printer->last[i] ? 1 : 0], out);
    fputs(guides[printer->last[level] ? 3 : 2], out);
}

// What is cut out of a chain: `skipped` names after the first `head`.
struct cut {
    size_t head, skipped;
};

// Of callers, the first matter most: the others are nearly the same for all.
static struct cut cut_callers(const unsigned *widths, size_t count, unsigned room)
{
    size_t head = 0;
    for (unsigned width = CUT_COLUMNS; head < count && head < CHAIN_NAMES; head++)
        if ((width += widths[head]) > room && head > 0)
            break;
    return (struct cut){head, count - head};
}

static struct cut find_cut(const unsigned *widths, size_t count, unsigned room, bool upward)
{
    unsigned whole = 0;
    for (size_t i = 0; i < count; i++)
        whole += widths[i];
    if (count <= CHAIN_NAMES && whole <= room)
        return (struct cut){count, 0};
    if (upward)
        return cut_callers(widths, count, room);
    // The last name matters most, then the first ones.
    for (size_t head = CHAIN_HEAD + 1; head-- > 0;) {
        unsigned width = whole + CUT_COLUMNS;
        for (size_t skipped = 1; head + skipped < count; skipped++) {
            width -= widths[head + skipped - 1];
            if (width <= room && count - skipped <= CHAIN_NAMES)
                return (struct cut){head, skipped};
        }
    }
    return (struct cut){0, count - 1};
}

// The names of a chain, with a cut in the middle if they are too many or too long.
static void put_chain(const struct tree_printer *printer, FILE *out, uint32_t level)
{
    bool unicode = printer->style->unicode;
    const char *arrow =
        printer->options->upward ? (unicode ? " ‹ " : " < ") : (unicode ? " › " : " > ");
    size_t count = printer->chain_count;
    unsigned room = show_room(printer->options, printer->style, 2 * level + (level > 0));
    char **names = memory_array(count, sizeof *names);
    unsigned *widths = memory_array(count, sizeof *widths);
    for (size_t i = 0; i < count; i++) {
        names[i] = link_name(printer, &printer->chain[i], room);
        widths[i] = text_width(names[i]) + (i > 0 ? 3 : 0);
    }
    struct cut cut = {count, 0};
    if (!printer->options->wide && count > 1)
        cut = find_cut(widths, count, room ? room : UINT32_MAX / 2, printer->options->upward);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            fputs(arrow, out);
        if (i == cut.head && cut.skipped > 0) {
            i += cut.skipped;
            fprintf(out, "(%zu more)%s", cut.skipped, i < count ? arrow : "");
            if (i == count)
                break;
        }
        fputs(names[i], out);
    }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    free(widths);
}

static char *row_name(const struct tree_printer *printer, uint32_t level)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    put_guides(printer, out, level);
    if (level > 0)
        fputc(' ', out);
    put_chain(printer, out, level);
    fclose(out);
    return memory_checked(text);
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

static uint64_t line_cost(const struct tree_printer *printer, uint32_t line)
{
    return printer->tree
        ->line_values[(size_t)line * printer->tree->metrics + printer->options->metric];
}

static bool is_shown_line(const struct tree_printer *printer, uint32_t line)
{
    uint64_t cost = line_cost(printer, line);
    return printer->tree->lines[line].line != 0 && cost > 0 && cost >= printer->options->least;
}

static void print_line(struct tree_printer *printer, uint32_t number, uint32_t level)
{
    const struct call_line *line = &printer->tree->lines[number];
    char *where = show_where(printer->tree->functions, line->file, line->line, MODULE_NONE);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    put_guides(printer, out, level);
    fprintf(out, " line %s", where);
    fclose(out);
    uint64_t cost = line_cost(printer, number);
    show_row(printer->table, printer->options,
             &(struct show_row){.total = cost, .self = cost, .name = text, .where = ""});
    free(where);
    free(text);
}

static void print_lines(struct tree_printer *printer, uint32_t node, bool children_follow)
{
    uint32_t level = printer->level[node] + 1, end = printer->first_line[node + 1];
    printer->last = memory_grown(printer->last, &printer->last_capacity, (size_t)level + 1,
                                 sizeof *printer->last);
    for (uint32_t i = printer->first_line[node], next; i < end; i = next) {
        for (next = i + 1; next < end && !is_shown_line(printer, printer->lines[next]);)
            next++;
        if (!is_shown_line(printer, printer->lines[i]))
            continue;
        printer->last[level] = next == end && !children_follow;
        print_line(printer, printer->lines[i], level);
    }
}

static void print_node(struct tree_printer *printer, uint32_t node, bool children_follow)
{
    const struct calltree *tree = printer->tree;
    const struct show_options *options = printer->options;
    unsigned metric = options->metric;
    char *name = row_name(printer, printer->level[node]);
    char *where = row_where(printer, options->upward ? printer->chain[0].node : node);
    show_row(printer->table, options,
             &(struct show_row){
                 .total = calltree_total(tree, node, metric),
                 .self = calltree_self(tree, node, metric),
                 .calls = options->has_calls && call_is_code(&tree->nodes[node])
                              ? calltree_self(tree, node, options->calls)
                              : 0,
                 .error = options->has_error ? calltree_self(tree, node, options->error) : 0,
                 .returns = tree->nodes[node].returns,
                 .name = name,
                 .where = where});
    free(name);
    free(where);
    printer->chain_count = 0;
    if (tree->keep_lines)
        print_lines(printer, node, children_follow);
}

static bool is_recursive(const struct calltree *tree, uint32_t node)
{
    const uint32_t function = tree->nodes[node].function;
    while ((node = tree->nodes[node].parent) != CALL_NONE)
        if (tree->nodes[node].function == function)
            return true;
    return false;
}

static void enter(struct tree_printer *printer, struct calltree_walk *walk)
{
    const struct calltree *tree = printer->tree;
    uint32_t node = walk->node, parent = tree->nodes[node].parent;
    struct show_hidden *hidden = printer->hidden;
    bool deep = printer->options->depth && walk->depth > printer->options->depth;
    if (deep || is_small(printer, node)) {
        uint64_t cost = cost_of(printer, node);
        if (deep && !is_small(printer, node)) {
            hidden->deep_count++;
            hidden->deep_cost += cost;
        } else if (cost > 0) {
            hidden->small_count++;
            hidden->small_cost += cost;
        }
        calltree_walk_skip(walk);
        return;
    }
    bool at_bottom = printer->options->depth && walk->depth == printer->options->depth;
    printer->chained[node] = !at_bottom && is_passage(printer, node);
    if (printer->chained[parent]) {
        printer->level[node] = printer->level[parent];
    } else {
        uint32_t level = printer->level[node] = parent == 0 ? 0 : printer->level[parent] + 1;
        printer->last = memory_grown(printer->last, &printer->last_capacity, (size_t)level + 1,
                                     sizeof *printer->last);
        printer->last[level] = !is_shown_child(printer, parent, walk->cursor[parent]);
    }
    add_link(printer, node);
    if (printer->chained[node])
        return;
    hidden->recursive += is_recursive(tree, node);
    print_node(printer, node, !at_bottom && is_shown_child(printer, node, 0));
}

void show_tree(FILE *out, const struct text_style *style, const struct calltree *tree,
               const struct show_options *options, struct show_hidden *hidden)
{
    *hidden = (struct show_hidden){0};
    struct tree_printer printer = {
        .tree = tree, .options = options, .style = style, .hidden = hidden};
    printer.table = show_table(options, "function");
    printer.level = memory_array(tree->count, sizeof *printer.level);
    printer.chained = memory_array(tree->count, sizeof *printer.chained);
    if (tree->keep_lines)
        printer.first_line = calltree_lines(tree, &printer.lines);
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;)
        if (event == WALK_ENTER && walk.node != 0)
            enter(&printer, &walk);
    calltree_walk_end(&walk);
    text_table_print(printer.table, out, style);
    text_table_free(printer.table);
    free(printer.level);
    free(printer.chained);
    free(printer.last);
    free(printer.chain);
    free(printer.first_line);
    free(printer.lines);
}
