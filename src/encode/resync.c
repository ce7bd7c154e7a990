// SPDX-License-Identifier: MIT
#include "encode/machine.h"
#include <errno.h>

// Longer ways than these are not looked for: tail calls of tail calls are rare.
enum { WAYS = 256 };

// A search through tail calls, breadth first, from what a site calls to the function that runs.
struct search {
    const struct graph *graph;
    uint32_t count;
    struct {
        uint32_t function, edge, before; // before: the index of the way that it goes on from
    } way[WAYS];
};

static void add_way(struct search *search, uint32_t edge, uint32_t before)
{
    uint32_t function = graph_edge(search->graph, edge)->callee;
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->way[i].function == function)
            return;
    }
    if (search->count == WAYS)
        return;
    search->way[search->count].function = function;
    search->way[search->count].edge = edge;
    search->way[search->count++].before = before;
}

static uint32_t search_ways(struct search *search, uint32_t function)
{
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->way[i].function == function)
            return i;
        const struct graph_function *at = graph_function(search->graph, search->way[i].function);
        for (uint32_t e = at->first_out; e != GRAPH_NONE;
             e = graph_edge(search->graph, e)->next_out) {
            if (edge_is_tail(graph_edge(search->graph, e)))
                add_way(search, e, i);
        }
    }
    return GRAPH_NONE;
}

static int take_way(struct machine *machine, const struct numbering *numbering,
                    const struct search *search, uint32_t last, uint32_t from)
{
    uint32_t edges[WAYS], count = 0;
    for (uint32_t i = last; i != GRAPH_NONE; i = search->way[i].before)
        edges[count++] = search->way[i].edge;
    while (count > 0) {
        uint32_t edge = edges[--count];
        int status = edge_is_tail(graph_edge(search->graph, edge))
                         ? machine_tail(machine, numbering, edge)
                         : machine_enter(machine, numbering, edge, from);
        if (status < 0)
            return status;
    }
    return 0;
}

// The call that a frame returns to: the way back of that one is what will run.
static uint32_t called_by(const struct graph *graph, const struct walked *frame)
{
    if (frame->called != GRAPH_NONE)
        return frame->called;
    uint32_t index = graph_find_site(graph, frame->site);
    if (index == GRAPH_NONE)
        return GRAPH_NONE;
    const struct graph_site *site = graph_site(graph, index);
    return site->kind == EDGE_CALL && site->targets == 1 ? site->first_edge : GRAPH_NONE;
}

static int take_frame(struct machine *machine, const struct numbering *numbering,
                      const struct walked *frame, uint32_t from, uint32_t function)
{
    const struct graph *graph = numbering->graph;
    if (function == GRAPH_NONE)
        return -ENOENT;
    uint32_t called = called_by(graph, frame);
    if (called == GRAPH_NONE)
        called = graph_find_edge(graph, frame->site, function);
    if (called == GRAPH_NONE)
        called = graph_find_outside(graph, frame->site, function);
    if (called == GRAPH_NONE)
        return -ENOENT;
    struct search search = {.graph = graph};
    add_way(&search, called, GRAPH_NONE);
    uint32_t way = search_ways(&search, function);
    return way == GRAPH_NONE ? -ENOENT : take_way(machine, numbering, &search, way, from);
}

uint32_t resync_explain(struct graph *graph, const struct walked *frame, place_t caller)
{
    uint32_t function = graph_add_function(graph, frame->function);
    uint32_t called = called_by(graph, frame), edge;
    if (function == GRAPH_NONE)
        return GRAPH_NONE;
    if (called == GRAPH_NONE) {
        uint32_t from = graph_add_function(graph, caller);
        return from == GRAPH_NONE
                   ? GRAPH_NONE
                   : graph_add_edge(graph, frame->site, from, function, EDGE_OUTSIDE);
    }
    // Somewhere in the function that was called is a tail call that we do not know. No call or jump
    // ends where a function begins, so that place can stand for it.
    uint32_t left = graph_edge(graph, called)->callee;
    edge = graph_add_edge(graph, graph_function(graph, left)->entry, left, function,
                          EDGE_TAIL_INDIRECT);
    if (edge != GRAPH_NONE)
        graph_edge(graph, edge)->flags |= EDGE_UNENCODED;
    return edge;
}

int machine_resync(struct machine *machine, const struct numbering *numbering,
                   const struct walked *frames, uint32_t count, uint32_t *unknown)
{
    uint32_t from = machine->root;
    machine_reset(machine);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t function = graph_find_function(numbering->graph, frames[i].function);
        int status = take_frame(machine, numbering, &frames[i], from, function);
        if (status < 0) {
            *unknown = i;
            return status;
        }
        from = function;
    }
    return 0;
}
