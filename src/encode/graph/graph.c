// SPDX-License-Identifier: MIT
#include "encode/graph/graph.h"

void graph_init(struct graph *graph, struct pool *pool)
{
    *graph = (struct graph){.pool = pool};
    graph->functions.size = sizeof(struct graph_function);
    graph->sites.size = sizeof(struct graph_site);
    graph->edges.size = sizeof(struct graph_edge);
}

void graph_free(struct graph *graph)
{
    series_free(&graph->functions, graph->pool);
    series_free(&graph->sites, graph->pool);
    series_free(&graph->edges, graph->pool);
}

uint32_t graph_find_function(const struct graph *graph, place_t entry)
{
    uint32_t index;
    struct lookup_cursor at = lookup_start(&graph->function_lookup, lookup_hash(entry, 0));
    while (lookup_next(&at, &index)) {
        if (graph_function(graph, index)->entry == entry)
            return index;
    }
    return GRAPH_NONE;
}

uint32_t graph_add_function(struct graph *graph, place_t entry)
{
    uint32_t index = graph_find_function(graph, entry);
    if (index != GRAPH_NONE)
        return index;
    index = graph->function_count;
    if (!series_reach(&graph->functions, graph->pool, index))
        return GRAPH_NONE;
    *graph_function(graph, index) =
        (struct graph_function){.entry = entry, .first_out = GRAPH_NONE, .first_in = GRAPH_NONE};
    if (!lookup_add(&graph->function_lookup, graph->pool, lookup_hash(entry, 0), index))
        return GRAPH_NONE;
    __atomic_store_n(&graph->function_count, index + 1, __ATOMIC_RELEASE);
    return index;
}

uint32_t graph_find_site(const struct graph *graph, place_t place)
{
    uint32_t index;
    struct lookup_cursor at = lookup_start(&graph->site_lookup, lookup_hash(place, 0));
    while (lookup_next(&at, &index)) {
        if (graph_site(graph, index)->place == place)
            return index;
    }
    return GRAPH_NONE;
}

static uint32_t add_site(struct graph *graph, place_t place, uint32_t caller)
{
    uint32_t index = graph_find_site(graph, place);
    if (index != GRAPH_NONE)
        return index;
    index = graph->site_count;
    if (!series_reach(&graph->sites, graph->pool, index))
        return GRAPH_NONE;
    *graph_site(graph, index) =
        (struct graph_site){.place = place, .caller = caller, .first_edge = GRAPH_NONE};
    if (!lookup_add(&graph->site_lookup, graph->pool, lookup_hash(place, 0), index))
        return GRAPH_NONE;
    graph->site_count++;
    return index;
}

uint32_t graph_find_edge(const struct graph *graph, place_t site, uint32_t callee)
{
    uint32_t index;
    struct lookup_cursor at = lookup_start(&graph->edge_lookup, lookup_hash(site, callee));
    while (lookup_next(&at, &index)) {
        const struct graph_edge *edge = graph_edge(graph, index);
        if (edge->callee == callee && graph_site(graph, edge->site)->place == site)
            return index;
    }
    return GRAPH_NONE;
}

uint32_t graph_add_edge(struct graph *graph, place_t site, uint32_t caller, uint32_t callee,
                        enum edge_kind kind)
{
    uint32_t index = graph_find_edge(graph, site, callee);
    if (index != GRAPH_NONE)
        return graph_edge(graph, index)->caller == caller ? index : GRAPH_NONE;
    index = graph->edge_count;
    uint32_t place = add_site(graph, site, caller);
    if (place == GRAPH_NONE || graph_site(graph, place)->caller != caller ||
        !series_reach(&graph->edges, graph->pool, index))
        return GRAPH_NONE;
    struct graph_site *at = graph_site(graph, place);
    struct graph_function *from = graph_function(graph, caller);
    struct graph_function *to = graph_function(graph, callee);
    *graph_edge(graph, index) = (struct graph_edge){.site = place,
                                                    .caller = caller,
                                                    .callee = callee,
                                                    .next_at_site = at->first_edge,
                                                    .next_out = from->first_out,
                                                    .next_in = to->first_in,
                                                    .kind = kind};
    // Whole before it can be found: a reader may look it up at any time.
    if (!lookup_add(&graph->edge_lookup, graph->pool, lookup_hash(site, callee), index))
        return GRAPH_NONE;
    at->first_edge = index;
    __atomic_store_n(&to->first_in, index, __ATOMIC_RELEASE);
    // Decoding looks for silent edges without a lock: the edge is whole.
    __atomic_store_n(&from->first_out, index, __ATOMIC_RELEASE);
    graph->silent_count += edge_is_silent(graph_edge(graph, index));
    __atomic_store_n(&graph->edge_count, index + 1, __ATOMIC_RELEASE);
    return index;
}
