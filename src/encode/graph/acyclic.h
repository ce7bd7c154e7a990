// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_ACYCLIC_H
#define CAIRN_ENCODE_GRAPH_ACYCLIC_H

// Which edges of a call graph can be encoded together: as many hot ones as possible without a
// circle. Edges are offered from the hottest to the coldest, and one that would close a circle with
// those taken before is refused: it is the coldest of that circle (the paper's back edge).
//
// A topological order of the functions is kept all the time (Pearce and Kelly's algorithm): an edge
// that agrees with it is taken at once, another one searches the part of the order between its
// ends.

#include "encode/graph/silent_edges.h"

struct acyclic {
    const struct graph *graph;
    const struct silent_edges *silent; // functions in a circle of silent edges are one
    uint32_t functions, edges;
    uint32_t *order;                // by function
    uint32_t *at;                   // by order
    uint32_t *mark;                 // by function: which search met it
    uint32_t *first_out, *next_out; // taken edges by caller
    uint32_t *first_in, *next_in;   // and by callee
    uint32_t *forward, *backward;   // what the two searches still have to look at
    uint32_t last_mark;
    size_t words;
    uint32_t *scratch;
};

// 0 or -ENOMEM. The silent edges are taken.
int acyclic_init(struct acyclic *acyclic, const struct graph *graph,
                 const struct silent_edges *silent);
bool acyclic_take(struct acyclic *acyclic, uint32_t edge);
void acyclic_free(struct acyclic *acyclic);

// Sorts edges from hot to cold, those equally hot from old to new. `scratch` has room for as many.
void sort_by_heat(const struct graph *graph, uint32_t *edges, uint32_t count, uint32_t *scratch);

#endif
