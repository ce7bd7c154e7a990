// SPDX-License-Identifier: MIT

#include "import/call_paths.h"
#include "base/memory.h"
#include <math.h>

enum { MOST_CONTEXTS = 200000 };
#define LEAST_SHARE 1e-6 // of the whole, that a path is followed for

struct call_context {
    uint32_t function;
    uint32_t caller; // context + 1; 0: none
    uint32_t line;   // of the caller, that the call is in
    uint32_t next;   // of the same function, + 1
    double weight;   // inclusive cost
    int64_t node;    // in the profile
};

static bool same(const char *one, const char *other)
{
    return one == other || (one && other && strcmp(one, other) == 0);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash_index_mix(hash + 1);
}

uint32_t call_graph_function(struct call_graph *graph, struct importer *importer,
                             const struct call_function *function)
{
    const uint64_t hash =
        hash_text(hash_text(hash_text(0, function->name), function->file), function->object);
    struct hash_index_cursor cursor = hash_index_find(&graph->by_name, hash);
    for (uint32_t found; hash_index_next(&graph->by_name, &cursor, &found);) {
        const struct call_function *known = &graph->functions[found].names;
        if (same(known->name, function->name) && same(known->file, function->file) &&
            same(known->object, function->object))
            return found;
    }
    importer_charge(importer, 2 * sizeof *graph->functions);
    graph->functions = memory_grown(graph->functions, &graph->function_capacity,
                                    graph->function_count + 1, sizeof *graph->functions);
    graph->functions[graph->function_count] = (struct graph_node){.names = *function};
    hash_index_add(&graph->by_name, hash, (uint32_t)graph->function_count);
    return (uint32_t)graph->function_count++;
}

bool call_graph_add(struct call_graph *graph, struct importer *importer, uint32_t function,
                    const struct graph_line *line)
{
    if (!importer_charge(importer, 2 * sizeof *line))
        return false;
    graph->lines =
        memory_grown(graph->lines, &graph->line_capacity, graph->line_count + 1, sizeof *line);
    graph->lines[graph->line_count] = *line;
    graph->lines[graph->line_count].next = graph->functions[function].lines;
    graph->functions[function].lines = (uint32_t)++graph->line_count;
    return true;
}

// The cost that paths are weighed by: the first that is there at all.
static unsigned weighing_metric(const struct call_graph *graph, unsigned metrics)
{
    for (unsigned i = 0; i < metrics; i++)
        for (size_t l = 0; l < graph->line_count; l++)
            if (graph->lines[l].values[i] > 0)
                return i;
    return 0;
}

static const struct graph_line *next_line(const struct call_graph *graph, uint32_t number)
{
    return number ? &graph->lines[number - 1] : NULL;
}

// By function: what it costs with all that it calls.
static double inclusive(const struct call_graph *graph, uint32_t function, unsigned metric)
{
    double cost = 0;
    for (const struct graph_line *line = next_line(graph, graph->functions[function].lines); line;
         line = next_line(graph, line->next))
        if (line->callee != function)
            cost += line->values[metric];
    return cost;
}

static void add_context(struct call_graph *graph, uint32_t function, uint32_t caller, uint32_t line,
                        double weight)
{
    graph->contexts = memory_grown(graph->contexts, &graph->context_capacity,
                                   graph->context_count + 1, sizeof *graph->contexts);
    struct graph_node *of = &graph->functions[function];
    graph->contexts[graph->context_count++] = (struct call_context){.function = function,
                                                                    .caller = caller,
                                                                    .line = line,
                                                                    .next = of->contexts,
                                                                    .weight = weight,
                                                                    .node = IMPORT_NONE};
    of->contexts = (uint32_t)graph->context_count;
    of->weight += weight;
}

static bool is_on_path(const struct call_graph *graph, uint32_t context, uint32_t function)
{
    for (; context; context = graph->contexts[context - 1].caller)
        if (graph->contexts[context - 1].function == function)
            return true;
    return false;
}

// Follows the calls of a context. Recursion ends a path: its cost is shared out to the others.
static void follow(struct call_graph *graph, uint32_t number, unsigned metric, double least)
{
    const struct call_context context = graph->contexts[number];
    const double whole = graph->functions[context.function].entered;
    for (uint32_t at = graph->functions[context.function].lines; at;
         at = graph->lines[at - 1].next) {
        const struct graph_line *line = &graph->lines[at - 1];
        const double weight = whole > 0 ? context.weight * line->values[metric] / whole : 0;
        if (line->callee == CALL_GRAPH_NONE || weight < least || weight <= 0 ||
            graph->context_count >= MOST_CONTEXTS || is_on_path(graph, number + 1, line->callee))
            continue;
        add_context(graph, line->callee, number + 1, at, weight);
    }
}

// Functions that cost more than all calls of them begin paths; so do those that no path leads to.
static void find_contexts(struct call_graph *graph, unsigned metric)
{
    double *called = memory_array(graph->function_count, sizeof *called), whole = 0;
    for (uint32_t f = 0; f < graph->function_count; f++) {
        graph->functions[f].entered = inclusive(graph, f, metric);
        for (const struct graph_line *line = next_line(graph, graph->functions[f].lines); line;
             line = next_line(graph, line->next))
            if (line->callee == CALL_GRAPH_NONE)
                whole += line->values[metric];
            else if (line->callee != f)
                called[line->callee] += line->values[metric];
    }
    const double least = whole * LEAST_SHARE;
    for (uint32_t f = 0; f < graph->function_count; f++)
        if (graph->functions[f].entered - called[f] > least)
            add_context(graph, f, 0, 0, graph->functions[f].entered - called[f]);
    for (uint32_t i = 0; i < graph->context_count; i++)
        follow(graph, i, metric, least);
    for (uint32_t f = 0; f < graph->function_count; f++)
        if (!graph->functions[f].contexts)
            add_context(graph, f, 0, 0, graph->functions[f].entered);
    free(called);
}

static int64_t place_of(const struct call_graph *graph, struct importer *importer,
                        uint32_t function, const char *file, uint32_t line)
{
    const struct call_function *names = &graph->functions[function].names;
    const struct import_line of = {
        .function = names->name, .file = file ? file : names->file, .line = line};
    return importer_place(
        importer, &(struct import_place){.module = names->object, .lines = &of, .line_count = 1});
}

static bool make_node(struct call_graph *graph, struct importer *importer, int tree,
                      struct call_context *context)
{
    const struct call_context *caller =
        context->caller ? &graph->contexts[context->caller - 1] : NULL;
    int64_t site = IMPORT_NONE;
    if (caller) {
        const struct graph_line *line = &graph->lines[context->line - 1];
        site = place_of(graph, importer, caller->function, line->file, line->line);
    }
    // The file of a line may be another one than that of its function: the function decides.
    const int64_t place = place_of(graph, importer, context->function, NULL, 0);
    context->node = importer_call(importer, tree, caller ? caller->node : IMPORT_NONE, site, place);
    return context->node != IMPORT_NONE;
}

// Whether a context is one of a call by `caller`; of any call if that is CALL_GRAPH_NONE.
static bool is_called_by(const struct call_graph *graph, const struct call_context *context,
                         uint32_t caller)
{
    return caller == CALL_GRAPH_NONE ||
           (context->caller && graph->contexts[context->caller - 1].function == caller);
}

// The weight of the contexts that are chosen; *last: one of them, + 1.
static double weigh(const struct call_graph *graph, uint32_t function, uint32_t caller,
                    uint32_t *last)
{
    double weight = 0;
    *last = 0;
    for (uint32_t at = graph->functions[function].contexts; at; at = graph->contexts[at - 1].next) {
        if (!is_called_by(graph, &graph->contexts[at - 1], caller))
            continue;
        weight += graph->contexts[at - 1].weight;
        *last = at;
    }
    return weight;
}

struct shared_cost {
    uint32_t function, caller;
    const char *file;
    uint32_t line;
    double values[IMPORT_METRICS];
};

// Shares a cost out to the contexts of a function. The last one gets the remainder of rounding.
static bool share_out(const struct call_graph *graph, struct importer *importer, int tree,
                      struct shared_cost cost)
{
    uint32_t last;
    double weight = weigh(graph, cost.function, cost.caller, &last);
    if (!last) {
        cost.caller = CALL_GRAPH_NONE;
        weight = weigh(graph, cost.function, cost.caller, &last);
    }
    const int64_t place = place_of(graph, importer, cost.function, cost.file, cost.line);
    double left[IMPORT_METRICS];
    memcpy(left, cost.values, sizeof left);
    for (uint32_t at = graph->functions[cost.function].contexts; at;) {
        const struct call_context *context = &graph->contexts[at - 1];
        const double share = weight > 0 ? context->weight / weight : 0;
        double values[IMPORT_METRICS] = {0};
        bool any = false;
        for (unsigned i = 0; i < importer->profile->metric_count; i++) {
            values[i] = at == last ? left[i] : floor(cost.values[i] * share);
            if (!is_called_by(graph, context, cost.caller))
                values[i] = 0;
            left[i] -= values[i];
            any |= values[i] > 0;
        }
        if (any && !importer_cost(importer, tree, context->node, place, values))
            return false;
        at = at == last ? 0 : context->next;
    }
    return true;
}

// The cost of a line, or the calls in it.
static bool share_line(const struct call_graph *graph, struct importer *importer, int tree,
                       uint32_t function, const struct graph_line *line)
{
    struct shared_cost cost = {.function = function, .caller = CALL_GRAPH_NONE};
    if (line->callee == CALL_GRAPH_NONE) {
        cost.file = line->file;
        cost.line = line->line;
        memcpy(cost.values, line->values, sizeof cost.values);
    } else if (graph->calls_metric != IMPORT_NONE) {
        cost.function = line->callee;
        cost.caller = function;
        cost.values[graph->calls_metric] = line->calls;
    } else {
        return true;
    }
    return share_out(graph, importer, tree, cost);
}

void call_graph_import(struct call_graph *graph, struct importer *importer)
{
    const int tree = importer_thread(importer, &(struct import_thread){0});
    if (tree == IMPORT_NONE)
        return;
    find_contexts(graph, weighing_metric(graph, importer->profile->metric_count));
    for (size_t i = 0; i < graph->context_count; i++)
        if (!make_node(graph, importer, tree, &graph->contexts[i]))
            return;
    for (uint32_t f = 0; f < graph->function_count; f++)
        for (const struct graph_line *line = next_line(graph, graph->functions[f].lines); line;
             line = next_line(graph, line->next))
            if (!share_line(graph, importer, tree, f, line))
                return;
    importer_note(importer, "the file has calls between pairs of functions, no paths: costs are "
                            "those of the file for each function, and estimates for each path");
}

void call_graph_free(struct call_graph *graph)
{
    free(graph->functions);
    free(graph->lines);
    free(graph->contexts);
    hash_index_free(&graph->by_name);
}
