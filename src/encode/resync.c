// SPDX-License-Identifier: MIT
#include "encode/machine.h"
#include "encode/ways.h"
#include <errno.h>

static int take_way(struct machine *machine, const struct numbering *numbering,
                    const uint32_t *edges, int count, uint32_t from)
{
    for (int i = 0; i < count; i++) {
        int status = edge_is_tail(graph_edge(numbering->graph, edges[i]))
                         ? machine_tail(machine, numbering, edges[i])
                         : machine_enter(machine, numbering, edges[i], from);
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
    uint32_t edges[WAYS];
    struct ways ways = {.graph = graph, .kind = EDGE_TAIL};
    ways_from_edge(&ways, called);
    int count = ways_find(&ways, function, edges);
    return count < 0 ? -ENOENT : take_way(machine, numbering, edges + WAYS - count, count, from);
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
