// SPDX-License-Identifier: MIT
#include "encode/graph/silent_path.h"

static void add(struct silent_search *search, uint32_t function, uint32_t edge, uint32_t before)
{
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->reached[i].function == function)
            return;
    }
    if (search->count == SILENT_MOST)
        return;
    search->reached[search->count].function = function;
    search->reached[search->count].edge = edge;
    search->reached[search->count++].before = before;
}

static bool leads_on(const struct silent_search *search, const struct graph_edge *edge)
{
    return search->kinds == SILENT_JUMPS ? edge->kind == EDGE_SILENT_JUMP : edge_is_silent(edge);
}

// The path to the function with that index, in front of `count` edges that are there already.
static int fill(const struct silent_search *search, uint32_t index, int count, uint32_t *edges)
{
    for (; search->reached[index].edge != GRAPH_NONE; index = search->reached[index].before) {
        if (count == SILENT_MOST)
            return -1;
        edges[SILENT_MOST - ++count] = search->reached[index].edge;
    }
    return count;
}

// There was no room for all functions, as with an interpreter that jumps to hundreds: one edge
// further, seen from its other end.
static int find_further(const struct silent_search *search, uint32_t function, uint32_t *edges)
{
    if (function >= graph_functions(search->graph))
        return -1;
    const struct graph_function *to = graph_function(search->graph, function);
    uint32_t next = __atomic_load_n(&to->first_in, __ATOMIC_ACQUIRE);
    for (; next != GRAPH_NONE; next = graph_edge(search->graph, next)->next_in) {
        const struct graph_edge *edge = graph_edge(search->graph, next);
        for (uint32_t i = 0; i < search->count && leads_on(search, edge); i++) {
            if (search->reached[i].function != edge->caller)
                continue;
            edges[SILENT_MOST - 1] = next;
            return fill(search, i, 1, edges);
        }
    }
    return -1;
}

// From search->reached[0]. The index of a function; GRAPH_NONE: it is not reached.
static uint32_t find(struct silent_search *search, uint32_t function)
{
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->reached[i].function == function)
            return i;
        const struct graph_function *from =
            graph_function(search->graph, search->reached[i].function);
        uint32_t next = __atomic_load_n(&from->first_out, __ATOMIC_ACQUIRE);
        while (next != GRAPH_NONE) {
            const struct graph_edge *edge = graph_edge(search->graph, next);
            if (leads_on(search, edge))
                add(search, edge->callee, next, i);
            next = edge->next_out;
        }
    }
    return GRAPH_NONE;
}

static void begin(struct silent_search *search, const struct graph *graph, enum silent_kinds kinds,
                  uint32_t function)
{
    search->graph = graph;
    search->kinds = kinds;
    search->count = 0;
    add(search, function, GRAPH_NONE, GRAPH_NONE);
}

bool silent_search_all(struct silent_search *search, const struct graph *graph, uint32_t function)
{
    begin(search, graph, SILENT_ALL, function);
    find(search, GRAPH_NONE);
    return search->count < SILENT_MOST;
}

int silent_path(const struct graph *graph, enum silent_kinds kinds, uint32_t from, uint32_t to,
                uint32_t *edges)
{
    struct silent_search search;
    begin(&search, graph, kinds, from);
    const uint32_t index = find(&search, to);
    if (index != GRAPH_NONE)
        return fill(&search, index, 0, edges);
    return search.count == SILENT_MOST ? find_further(&search, to, edges) : -1;
}
