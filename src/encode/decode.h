// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_DECODE_H
#define CAIRN_ENCODE_DECODE_H

// From a recorded context to the path of calls that it stands for. Needs the graph (any later state
// of it) and the dictionary of the context's stamp; signal-safe, and safe for any input: a context
// that cannot be is -EBADMSG.

#include "encode/machine.h"

struct context {
    uint64_t id;
    const struct cc_entry *stack; // from old to young
    uint32_t depth;
    uint32_t root;     // the function that the thread began in
    uint32_t function; // where it was
};

static inline struct context context_of(const struct machine *machine, uint32_t function)
{
    return (struct context){machine->id, machine->stack, machine->depth, machine->root, function};
}

// The edges from the root to the function: fills the *end* of path[0 .. limit) and returns how many
// there are, so that they begin at path[limit - result]. -ENOSPC: more than limit. -EBADMSG.
//
// Tail calls are edges like the others. One that loops (EDGE_LOOPS) need not begin where the edge
// before it ends: what lies between is forgotten. An edge from outside (EDGE_OUTSIDE) begins where
// the one before it ends, whatever it says itself.
int64_t context_decode(const struct graph *graph, const struct dictionary *dictionary,
                       const struct context *context, uint32_t *path, uint32_t limit);

// The same for a context that a walk has confirmed to be without silent calls, when the graph may
// have grown since: silent jumps are gone from the stack, so of several ways by these any will do,
// and what they might have led to otherwise does not matter.
int64_t context_decode_confirmed(const struct graph *graph, const struct dictionary *dictionary,
                                 const struct context *context, uint32_t *path, uint32_t limit);

// Re-encodes the state of a thread that is in a function: decodes it by the old dictionary, replays
// it under the new numbering. `path` is scratch. The length of the path, or what context_decode()
// or machine_replay() said; after -EBADMSG and -ENOSPC from context_decode() the state is as it
// was.
int64_t context_translate(struct machine *machine, uint32_t function, const struct dictionary *old,
                          const struct numbering *numbering, uint32_t *path, uint32_t limit);

// What a stack walk would see of a path: frames without those that tail calls have replaced.
// Returns how many. `frames` has room for `count`.
uint32_t path_to_walk(const struct graph *graph, const uint32_t *path, uint32_t count,
                      struct walked *frames);

#endif
