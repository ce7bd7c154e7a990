// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_GRAPH_H
#define CAIRN_ENCODE_GRAPH_GRAPH_H

// The dynamic call graph: what was called so far, from where. It only grows. Functions, sites and
// edges are numbered from 0 in the order they were met, and the numbers never change: the contexts
// of a thread, the dictionaries and the profile all speak of "edge 17".
//
//   function main ──┬─ site main+0x12 ── edge 0 ──► function parse
//                   └─ site main+0x20 ─┬ edge 1 ──► function a      (an indirect call
//                                      └ edge 2 ──► function b       has an edge per target)
//
// One writer at a time (the caller's lock). Decoding only reads what never changes after an edge
// was added, and needs no lock.

#include "base/place.h"
#include "encode/graph/lookup.h"
#include "encode/graph/pool.h"

#define GRAPH_NONE UINT32_MAX

// The numbers stand in profiles (serial.h).
enum edge_kind {
    EDGE_CALL = 0,     // a call whose only target is known: direct, or through PLT or GOT
    EDGE_INDIRECT = 1, // a call through a register or memory: any number of targets
    // A jump to another function, or a call, that is not patched: the state does not change. To be
    // added before the function with the jump or call runs.
    EDGE_SILENT_JUMP = 4,
    EDGE_SILENT_CALL = 5,
};

enum {
    // Cannot be given a number, for reasons that the patcher knows.
    EDGE_UNENCODED = 2,
    // Of an indirect call that the patcher has no room for in the chain of its site: it pushes,
    // whatever its word is. Not in profiles.
    EDGE_ARMLESS = 4,
};

struct graph_edge {
    uint64_t heat; // how often it was found newly taken; cools down
    uint32_t site, caller, callee;
    uint32_t next_at_site, next_out, next_in; // lists of the site, the caller and the callee
    uint8_t kind;
    uint8_t flags;
};

struct graph_site {
    place_t place; // the return address of the call; the end of a jump
    uint32_t caller;
    uint32_t first_edge;
};

struct graph_function {
    place_t entry;
    uint32_t first_out, first_in;
};

struct graph {
    struct pool *pool;
    struct series functions, sites, edges;
    uint32_t function_count, site_count, edge_count;
    struct lookup function_lookup, site_lookup, edge_lookup;
    uint32_t silent_count; // edges that are silent
};

void graph_init(struct graph *graph, struct pool *pool);
void graph_free(struct graph *graph); // all but what pool_alloc() gave

// All of these: GRAPH_NONE when there is none, or no memory.
uint32_t graph_find_function(const struct graph *graph, place_t entry); // signal-safe
uint32_t graph_add_function(struct graph *graph, place_t entry);        // or the one that is there
uint32_t graph_find_site(const struct graph *graph, place_t place);     // signal-safe
uint32_t graph_find_edge(const struct graph *graph, place_t site, uint32_t callee); // signal-safe
// The edge, which may have been there (edge_count tells). A site belongs to one function: with
// another caller than that which it was first added with, there is no edge.
uint32_t graph_add_edge(struct graph *graph, place_t site, uint32_t caller, uint32_t callee,
                        enum edge_kind kind);

static inline struct graph_function *graph_function(const struct graph *graph, uint32_t index)
{
    return series_at(&graph->functions, index);
}

static inline struct graph_site *graph_site(const struct graph *graph, uint32_t index)
{
    return series_at(&graph->sites, index);
}

static inline struct graph_edge *graph_edge(const struct graph *graph, uint32_t index)
{
    return series_at(&graph->edges, index);
}

// How many there are, for readers without the lock: what lies below is whole.
static inline uint32_t graph_functions(const struct graph *graph)
{
    return __atomic_load_n(&graph->function_count, __ATOMIC_ACQUIRE);
}

static inline uint32_t graph_edges(const struct graph *graph)
{
    return __atomic_load_n(&graph->edge_count, __ATOMIC_ACQUIRE);
}

static inline bool edge_is_silent(const struct graph_edge *edge)
{
    return edge->kind == EDGE_SILENT_JUMP || edge->kind == EDGE_SILENT_CALL;
}

#endif
