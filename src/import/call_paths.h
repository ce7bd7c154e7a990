// SPDX-License-Identifier: MIT
#ifndef CAIRN_IMPORT_CALL_PATHS_H
#define CAIRN_IMPORT_CALL_PATHS_H

// Call paths out of a graph that knows functions and the calls between two of them alone. As gprof
// does it: a function is taken to cost the same whoever calls it, so its cost is shared out to its
// paths by the inclusive cost that these have. A function's own cost stays what it was, to the
// unit; its share on a path is an estimate.
//
//   a calls c: 10, b calls c: 30, c itself: 20        a;c 5   b;c 15

#include "import/importer.h"

#define CALL_GRAPH_NONE UINT32_MAX

struct call_function {
    const char *name, *file, *object; // which stay where they are; NULL: not known
};

// A line of a function: its own cost, or the inclusive cost of its calls of another one.
struct graph_line {
    const char *file; // NULL: that of the function
    uint32_t line;
    uint32_t callee; // CALL_GRAPH_NONE: the function's own cost
    double values[IMPORT_METRICS];
    double calls;
    uint32_t next; // line of the function + 1; 0: none
};

struct call_graph {
    int calls_metric; // IMPORT_NONE: calls are not counted
    struct graph_node {
        struct call_function names;
        uint32_t lines;    // + 1, the newest first
        double entered;    // what it costs with all that it calls
        uint32_t contexts; // + 1, the newest first
        double weight;     // of all contexts
    } * functions;
    size_t function_count, function_capacity;
    struct graph_line *lines;
    size_t line_count, line_capacity;
    struct hash_index by_name;
    struct call_context *contexts;
    size_t context_count, context_capacity;
};

uint32_t call_graph_function(struct call_graph *graph, struct importer *importer,
                             const struct call_function *function);
bool call_graph_add(struct call_graph *graph, struct importer *importer, uint32_t function,
                    const struct graph_line *line);

// Makes paths, and imports them.
void call_graph_import(struct call_graph *graph, struct importer *importer);
void call_graph_free(struct call_graph *graph);

#endif
