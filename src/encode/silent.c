// SPDX-License-Identifier: MIT
#include "encode/silent.h"
#include <errno.h>

enum {
    FLAG_SOURCE = 1, // has a silent edge
    FLAG_TARGET = 2, // is reached by one
    FLAG_MIXED = 4,  // of the function that stands for its group
};

static uint32_t group_of(const struct silent *silent, uint32_t function)
{
    while (silent->group[function] != function) {
        // Halves the way for those who come later.
        silent->group[function] = silent->group[silent->group[function]];
        function = silent->group[function];
    }
    return function;
}

int silent_init(struct silent *silent, struct acyclic *acyclic)
{
    const struct graph *graph = acyclic->graph;
    *silent = (struct silent){.graph = graph};
    if (graph->silent_count == 0)
        return 0;
    silent->bytes = (size_t)graph->function_count * (sizeof(uint32_t) + 1);
    silent->group = pool_map(graph->pool, silent->bytes);
    if (!silent->group)
        return -ENOMEM;
    silent->flags = (uint8_t *)(silent->group + graph->function_count);
    for (uint32_t i = 0; i < graph->function_count; i++)
        silent->group[i] = i;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        if (!edge_is_silent(edge))
            continue;
        bool mixed = (silent->flags[edge->callee] & FLAG_TARGET) || !acyclic_take(acyclic, i);
        uint32_t from = group_of(silent, edge->caller), to = group_of(silent, edge->callee);
        silent->flags[edge->caller] |= FLAG_SOURCE;
        silent->flags[edge->callee] |= FLAG_TARGET;
        silent->flags[to] |= silent->flags[from] & FLAG_MIXED;
        if (mixed)
            silent->flags[to] |= FLAG_MIXED;
        silent->group[from] = to;
    }
    return 0;
}

void silent_free(struct silent *silent)
{
    pool_unmap(silent->graph->pool, silent->group, silent->bytes);
}

static bool is_mixed(const struct silent *silent, uint32_t function)
{
    return silent->flags[group_of(silent, function)] & FLAG_MIXED;
}

bool silent_is_simple(const struct silent *silent, const struct graph_edge *edge)
{
    return edge_is_silent(edge) && !is_mixed(silent, edge->callee);
}

bool silent_forbids(const struct silent *silent, const struct graph_edge *edge)
{
    return silent->group && (silent->flags[edge->callee] & FLAG_SOURCE) &&
           is_mixed(silent, edge->callee);
}

bool silent_reserves(const struct silent *silent, uint32_t function)
{
    return silent->group && (silent->flags[function] & FLAG_TARGET) && is_mixed(silent, function);
}
