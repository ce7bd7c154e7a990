// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_WAYS_H
#define CAIRN_ENCODE_WAYS_H

// The shortest way from an edge, or a function, to another function by tail calls: what a stack
// walk, or a state that silent edges did not change, cannot tell. Signal-safe.

#include "encode/graph.h"

// Longer ways are not looked for: tail calls of tail calls are rare.
enum { WAYS = 128 };

#define WAYS_OF_JUMPS EDGE_KINDS

struct ways {
    const struct graph *graph;
    enum edge_kind kind; // EDGE_SILENT_JUMP: by silent edges; EDGE_TAIL: by tail calls;
                         // WAYS_OF_JUMPS: by silent jumps alone
    uint32_t count;
    struct {
        uint32_t function, edge, before; // before: the index of the way that it goes on from
    } way[WAYS];
};

void ways_from_function(struct ways *ways, uint32_t function);
void ways_from_edge(struct ways *ways, uint32_t edge); // which is part of the way

// Fills the *end* of edges[WAYS] with the way to a function; how many, or -1.
int ways_find(struct ways *ways, uint32_t function, uint32_t *edges);

#endif
