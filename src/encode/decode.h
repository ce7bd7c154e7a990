// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_DECODE_H
#define CAIRN_ENCODE_DECODE_H

// From a recorded context to the path of calls that it stands for. Needs the graph (any later state
// of it) and the dictionary of the context's stamp; signal-safe, and safe for any input: a context
// that cannot be is -EBADMSG.

#include "encode/numbering.h"

struct encoded_context {
    uint64_t id;
    const struct cc_entry *stack; // from old to young
    uint32_t depth;
    uint32_t root;     // the function that the thread began in
    uint32_t function; // where it was
    // By function, whether it is open (state.h), as far as that is known; NULL: none is.
    const uint8_t *open;
    uint32_t open_count;
};

static inline struct encoded_context encoded_context_of(const struct context_state *state,
                                                        uint32_t function)
{
    return (struct encoded_context){.id = state->id,
                                    .stack = state->stack,
                                    .depth = state->depth,
                                    .root = state->root,
                                    .function = function};
}

// The edges from the root to the function: fills the *end* of path[0 .. limit) and returns how many
// there are, so that they begin at path[limit - result]. -ENOSPC: more than limit. -EBADMSG.
int64_t context_decode(const struct graph *graph, const struct dictionary *dictionary,
                       const struct encoded_context *context, uint32_t *path, uint32_t limit);

// The same for a context that a walk has confirmed to be without silent calls, when the graph may
// have grown since: silent jumps are gone from the stack, so of several ways by these any will do,
// and what they might have led to otherwise does not matter.
int64_t context_decode_confirmed(const struct graph *graph, const struct dictionary *dictionary,
                                 const struct encoded_context *context, uint32_t *path,
                                 uint32_t limit);

// One frame of a stack walk: the call's return address, and the function that runs.
struct walked {
    place_t site;
    place_t function;
};

// The frames that a stack walk would see of a path: without those that jumps have replaced.
// Returns how many. `frames` has room for `count`.
uint32_t path_to_walk(const struct graph *graph, const uint32_t *path, uint32_t count,
                      struct walked *frames);

#endif
