// SPDX-License-Identifier: MIT

// A call graph for graphviz: a box for each function, larger the more it costs itself, and darker
// the more it costs with all that it calls; an arrow for each pair of caller and callee, wider the
// more the calls cost. Functions and arrows of small shares are left out.

#include "base/memory.h"
#include "base/text/text.h"
#include "export/cost_lines.h"
#include <errno.h>
#include <math.h>

#define LEAST_FUNCTION 0.005 // of the whole
#define LEAST_ARROW 0.001
#define NAME_COLUMNS 60

struct arrow {
    uint32_t caller, callee;
    uint64_t cost, calls;
};

struct dot {
    FILE *out;
    const struct export_input *input;
    struct cost_lines lines;
    uint64_t whole;
    uint64_t *own, *inclusive; // by function
    struct arrow *arrows;
    size_t arrow_count;
};

static int compare_arrows(const void *left, const void *right)
{
    const struct arrow *a = left, *b = right;
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    return a->callee < b->callee ? -1 : a->callee > b->callee;
}

// The calls of one function from several lines are one arrow.
static void join_arrows(struct dot *dot)
{
    size_t count = 0;
    if (dot->arrow_count)
        qsort(dot->arrows, dot->arrow_count, sizeof *dot->arrows, compare_arrows);
    for (size_t i = 0; i < dot->arrow_count; i++) {
        struct arrow *last = count ? &dot->arrows[count - 1] : NULL;
        if (!last || compare_arrows(last, &dot->arrows[i]) != 0) {
            dot->arrows[count++] = dot->arrows[i];
            continue;
        }
        last->cost += dot->arrows[i].cost;
        last->calls += dot->arrows[i].calls;
    }
    dot->arrow_count = count;
}

static void collect(struct dot *dot)
{
    const struct calltree *tree = dot->input->tree;
    const uint32_t functions = functions_count(tree->functions);
    cost_lines_open(&dot->lines, dot->input);
    dot->own = memory_array(functions, sizeof *dot->own);
    dot->inclusive = memory_array(functions, sizeof *dot->inclusive);
    dot->arrows = memory_array(dot->lines.count, sizeof *dot->arrows);
    for (size_t i = 0; i < dot->lines.count; i++) {
        const struct cost_line *line = &dot->lines.list[i];
        const uint64_t cost = dot->lines.values[line->values];
        if (!line->callee) {
            dot->own[line->function] += cost;
            continue;
        }
        dot->inclusive[line->callee] += cost;
        if (line->function != tree->nodes[0].function)
            dot->arrows[dot->arrow_count++] =
                (struct arrow){line->function, line->callee, cost, line->calls};
    }
    join_arrows(dot);
}

static double share(const struct dot *dot, uint64_t cost)
{
    return dot->whole ? (double)cost / (double)dot->whole : 0;
}

static bool is_shown(const struct dot *dot, uint32_t function)
{
    return dot->inclusive[function] && share(dot, dot->inclusive[function]) >= LEAST_FUNCTION;
}

// Inside of quotes, graphviz looks for quotes, backslashes and entities.
static void put_escaped(FILE *out, const char *text)
{
    for (text = text_safe(text); *text; text++)
        if (*text == '&')
            fputs("&amp;", out);
        else
            fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void put_cost(FILE *out, const char *title, const struct dot *dot, uint64_t cost)
{
    const char *unit = dot->input->analysis->profile->metrics[dot->input->metric].unit;
    fprintf(out, "%s%s (%s)", title, text_percent((double)cost, (double)dot->whole).text,
            text_amount(cost, unit).text);
}

static void put_function(const struct dot *dot, uint32_t number)
{
    FILE *out = dot->out;
    const struct functions *functions = dot->input->tree->functions;
    const struct function *function = functions_get(functions, number);
    const char *module = functions_module_name(functions, function->module);
    const double total = fmin(share(dot, dot->inclusive[number]), 1);
    const struct text_style style = {.unicode = true};
    char *name = text_cut(function->name, NAME_COLUMNS, &style);
    fprintf(out, "    f%u [label=\"", number);
    put_escaped(out, name);
    if (module) {
        fputs("\\n", out);
        put_escaped(out, module);
    }
    put_cost(out, "\\nself ", dot, dot->own[number]);
    put_cost(out, "\\ntotal ", dot, dot->inclusive[number]);
    fputs("\", tooltip=\"", out);
    put_escaped(out, function->name);
    // From white to a red that black text can be read on.
    fprintf(out, "\", fontsize=%.1f, fillcolor=\"0.05 %.3f 1.0\"];\n",
            10 + 30 * sqrt(share(dot, dot->own[number])), 0.65 * total);
    free(name);
}

static void put_arrow(const struct dot *dot, const struct arrow *arrow)
{
    const double cost = share(dot, arrow->cost);
    const bool calls_itself = arrow->caller == arrow->callee;
    if (!is_shown(dot, arrow->caller) || !is_shown(dot, arrow->callee) ||
        (cost < LEAST_ARROW && !calls_itself))
        return;
    fprintf(dot->out, "    f%u -> f%u [label=\"", arrow->caller, arrow->callee);
    if (arrow->cost)
        fputs(text_percent((double)arrow->cost, (double)dot->whole).text, dot->out);
    if (arrow->calls)
        fprintf(dot->out, "\\n%s×", text_count(arrow->calls).text);
    fprintf(dot->out, "\", penwidth=%.2f, weight=%u];\n", 0.5 + 7.5 * fmin(cost, 1),
            1 + (unsigned)(100 * fmin(cost, 1)));
}

static void put_graph(const struct dot *dot)
{
    FILE *out = dot->out;
    const struct profile *profile = dot->input->analysis->profile;
    char *command = analysis_command(profile->command);
    fputs("digraph cairn {\n    label=\"", out);
    put_escaped(out, command);
    put_cost(out, ": ", dot, dot->whole);
    fputs(" of ", out);
    put_escaped(out, profile->metrics[dot->input->metric].name);
    fputs("\";\n    labelloc=t;\n"
          "    node [shape=box, style=filled, color=\"#808080\", fontname=\"sans-serif\"];\n"
          "    edge [color=\"#606060\", fontname=\"sans-serif\", fontsize=10];\n",
          out);
    free(command);
    const uint32_t functions = functions_count(dot->input->tree->functions);
    for (uint32_t i = 0; i < functions; i++)
        if (is_shown(dot, i))
            put_function(dot, i);
    for (size_t i = 0; i < dot->arrow_count; i++)
        put_arrow(dot, &dot->arrows[i]);
    fputs("}\n", out);
}

static int write_dot(FILE *out, const struct export_input *input)
{
    struct dot dot = {
        .out = out, .input = input, .whole = calltree_total(input->tree, 0, input->metric)};
    collect(&dot);
    put_graph(&dot);
    cost_lines_close(&dot.lines);
    free(dot.own);
    free(dot.inclusive);
    free(dot.arrows);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_dot = {
    .name = "dot",
    .summary = "graphviz: a call graph of the functions that cost most",
    .detail = EXPORT_LINES,
    .write = write_dot,
};
