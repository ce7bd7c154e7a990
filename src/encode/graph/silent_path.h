// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_SILENT_PATH_H
#define CAIRN_ENCODE_GRAPH_SILENT_PATH_H

// The shortest path of silent edges from a function to another one. The state of a thread does not
// tell silent edges, since they do not change it. Signal-safe.

#include "encode/graph/graph.h"

// Most functions that are searched: silent edges behind silent edges are rare.
enum { SILENT_MOST = 128 };

enum silent_kinds {
    SILENT_ALL,
    SILENT_JUMPS, // no calls
};

struct silent_search {
    const struct graph *graph;
    enum silent_kinds kinds;
    uint32_t count;
    struct {
        uint32_t function, edge, before; // before: the index that the path comes from
    } reached[SILENT_MOST];
};

// Fills search->reached with all that a function leads to, itself first. False: there may be more.
bool silent_search_all(struct silent_search *search, const struct graph *graph, uint32_t function);

// Fills the *end* of edges[SILENT_MOST] with the path; how many, or -1.
int silent_path(const struct graph *graph, enum silent_kinds kinds, uint32_t from, uint32_t to,
                uint32_t *edges);

#endif
