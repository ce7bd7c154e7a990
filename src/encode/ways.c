// SPDX-License-Identifier: MIT
#include "encode/ways.h"

static void add_way(struct ways *ways, uint32_t function, uint32_t edge, uint32_t before)
{
    for (uint32_t i = 0; i < ways->count; i++) {
        if (ways->way[i].function == function)
            return;
    }
    if (ways->count == WAYS)
        return;
    ways->way[ways->count].function = function;
    ways->way[ways->count].edge = edge;
    ways->way[ways->count++].before = before;
}

void ways_from_function(struct ways *ways, uint32_t function)
{
    add_way(ways, function, GRAPH_NONE, GRAPH_NONE);
}

void ways_from_edge(struct ways *ways, uint32_t edge)
{
    add_way(ways, graph_edge(ways->graph, edge)->callee, edge, GRAPH_NONE);
}

static bool goes(enum edge_kind kind, const struct graph_edge *edge)
{
    return kind == EDGE_SILENT_JUMP ? edge_is_silent(edge)
           : kind == EDGE_TAIL      ? edge_is_tail(edge)
                                    : edge->kind == EDGE_SILENT_JUMP;
}

// The way to where the one with this number leads, with so many edges behind it already.
static int tell(const struct ways *ways, uint32_t number, int count, uint32_t *edges)
{
    for (uint32_t at = number; at != GRAPH_NONE && ways->way[at].edge != GRAPH_NONE;
         at = ways->way[at].before) {
        if (count == WAYS)
            return -1;
        edges[WAYS - ++count] = ways->way[at].edge;
    }
    return count;
}

// There was no room for all ways, as with an interpreter that jumps to hundreds of functions: one
// edge further, seen from its other end.
static int find_further(const struct ways *ways, uint32_t function, uint32_t *edges)
{
    if (function >= graph_functions(ways->graph))
        return -1;
    const struct graph_function *to = graph_function(ways->graph, function);
    uint32_t next = __atomic_load_n(&to->first_in, __ATOMIC_ACQUIRE);
    for (; next != GRAPH_NONE; next = graph_edge(ways->graph, next)->next_in) {
        const struct graph_edge *edge = graph_edge(ways->graph, next);
        for (uint32_t i = 0; i < ways->count && goes(ways->kind, edge); i++) {
            if (ways->way[i].function != edge->caller)
                continue;
            edges[WAYS - 1] = next;
            return tell(ways, i, 1, edges);
        }
    }
    return -1;
}

int ways_find(struct ways *ways, uint32_t function, uint32_t *edges)
{
    for (uint32_t i = 0; i < ways->count; i++) {
        if (ways->way[i].function == function)
            return tell(ways, i, 0, edges);
        const struct graph_function *from = graph_function(ways->graph, ways->way[i].function);
        uint32_t next = __atomic_load_n(&from->first_out, __ATOMIC_ACQUIRE);
        while (next != GRAPH_NONE) {
            const struct graph_edge *edge = graph_edge(ways->graph, next);
            if (goes(ways->kind, edge))
                add_way(ways, edge->callee, next, i);
            next = edge->next_out;
        }
    }
    return ways->count == WAYS ? find_further(ways, function, edges) : -1;
}
