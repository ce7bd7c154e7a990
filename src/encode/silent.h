// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_SILENT_H
#define CAIRN_ENCODE_SILENT_H

// Jumps between functions, and calls, that cannot be patched change nothing, so the id in the
// function that they lead to is that of the function they left. Functions that are connected by
// silent edges form a group:
//
//   simple   no function is reached by two, and there is no circle. Then each is an edge
//            with the number 0, the first in its list, and all is as usual.
//   mixed    else. Then all calls of functions with a silent edge push, so that such a function is
//            always the head of a sub-path, with the id 0; and the functions that they lead to keep
//            their id 0 for them. The head tells where it came from.

#include "encode/acyclic.h"

struct silent {
    const struct graph *graph;
    uint32_t *group; // by function: another one of its group, itself at last; NULL: no silent jumps
    uint8_t *flags;
    size_t bytes;
};

// Takes the edges of simple groups. 0 or -ENOMEM.
int silent_init(struct silent *silent, struct acyclic *acyclic);
void silent_free(struct silent *silent);

// Whether a silent edge is one of a simple group.
bool silent_is_simple(const struct silent *silent, const struct graph_edge *edge);

// Whether an edge must push, because of what the function called does.
bool silent_forbids(const struct silent *silent, const struct graph_edge *edge);

// Whether a function keeps the id 0.
bool silent_reserves(const struct silent *silent, uint32_t function);

#endif
