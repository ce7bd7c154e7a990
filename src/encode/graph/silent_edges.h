// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_SILENT_EDGES_H
#define CAIRN_ENCODE_GRAPH_SILENT_EDGES_H

// Jumps between functions, and calls, that cannot be patched change nothing, so the id in the
// function that they lead to is that of the function they left. Callers that silent edges lead to
// the same function are told apart if no two of them have an id in common:
//
//   f ─┄─► h ◄─┄─ g        ids of f: 0 1 2, of g: 3 4, of h: those, and 5 ... by calls of h
//
// So each function has a part of the ids for those who call it, and the parts of all functions that
// lead silently to the same one do not overlap. Functions in a circle of silent edges lead to each
// other, and are numbered together.

#include "encode/graph/graph.h"

struct silent_edges {
    const struct graph *graph;
    uint32_t functions, edges; // those that are looked at
    uint32_t *same;       // by function: the one that stands for its circle; NULL: no silent edges
    uint32_t *next;       // by function: another one of the circle; GRAPH_NONE
    uint32_t *list;       // what silent_reach() has found
    uint32_t *first, *to; // where the edges of a function begin, and where they lead to
    uint32_t *mark, last_mark;
    size_t bytes;
};

// 0 or -ENOMEM.
int silent_init(struct silent_edges *silent, const struct graph *graph, uint32_t functions,
                uint32_t edges);
void silent_free(struct silent_edges *silent);

// How many functions one leads to by silent edges, itself not counted: they are in silent->list.
uint32_t silent_reach(struct silent_edges *silent, uint32_t function);

static inline uint32_t silent_same(const struct silent_edges *silent, uint32_t function)
{
    return silent->same ? silent->same[function] : function;
}

#endif
