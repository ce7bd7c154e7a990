// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_MACHINE_H
#define CAIRN_ENCODE_MACHINE_H

// What a patched call does to the state of its thread, in plain C: the specification of the stubs.
//
// A thread's context is (id, ccStack), together with the function it is in and the root of the
// thread. The id is the number of the current sub-path, which began at the root, or with the
// unencoded edge on top of ccStack; the entries hold the numbers of the sub-paths before.
//
//   main ─0─► a ─2─► b ┄┄► c ─1─► d          id = base + 1
//                       unencoded            ccStack: (id 2, edge b→c, 0)
//
// TcStack is not part of the context. It keeps what a call has to restore when the function that it
// called may leave by a tail call, whose end nobody sees.
//
// A state with no memory for a stack has limit 0; a push that finds no room returns -ENOSPC, and
// the state is to be regenerated (the stubs' stack ends in a guard page instead, see
// docs/encode.md).

#include "encode/numbering.h"

struct cc_entry {
    uint64_t id; // before the edge was taken
    uint32_t edge;
    uint32_t count; // how often the same happened again; of edges from outside and of looping tail
                    // calls: the function that the id belongs to
};

struct tc_entry {
    uint64_t id; // before the call
    uint32_t depth;
    uint32_t count; // of the entry on top of ccStack
    uint32_t edge;  // the call itself
    uint32_t unused;
};

struct machine {
    uint64_t id;
    uint32_t depth, tail_depth; // entries in use
    struct cc_entry *stack;
    struct tc_entry *tail_stack;
    uint32_t limit, tail_limit;
    uint32_t root; // the function that the thread began in
};

void machine_reset(struct machine *machine); // back in the root; keeps memory and root

// Around a call that is not a tail call. All return 0 or -ENOSPC.
int machine_call(struct machine *machine, const struct numbering *numbering, uint32_t edge);
void machine_return(struct machine *machine, const struct numbering *numbering, uint32_t edge);

// The same for EDGE_OUTSIDE, in a thread that is in a function (a signal has interrupted it there,
// or it is code that is not patched): the handler, or the function called back, is entered.
int machine_enter(struct machine *machine, const struct numbering *numbering, uint32_t edge,
                  uint32_t function);

// Before a tail jump. There is no after.
int machine_tail(struct machine *machine, const struct numbering *numbering, uint32_t edge);

// The state at the end of a path, which begins in the root: what re-encoding does with a path that
// was decoded under the old encoding.
int machine_replay(struct machine *machine, const struct numbering *numbering,
                   const uint32_t *edges, uint32_t count);

// One frame of a stack walk: the call's return address, and the function that runs.
struct walked {
    place_t site;
    place_t function;
    uint32_t called; // the edge whose stub the frame returns to; GRAPH_NONE: none, or the only one
};

// The state for a stack that was walked, frames from the root's callee to the youngest: the way out
// of exceptions, longjmp, and everything that nobody told us of. Where a call leads to the function
// that runs by tail calls, these are taken, so that what the code at the site does after the call
// fits. -ENOENT: no known edges explain frames[*unknown]: resync_explain(), numbering_cover(),
// again.
int machine_resync(struct machine *machine, const struct numbering *numbering,
                   const struct walked *frames, uint32_t count, uint32_t *unknown);

// Adds the edge that explains a frame whose caller is known: an unseen tail call of what the site
// calls, or, at a site that is not ours, a call from outside. GRAPH_NONE: no memory.
uint32_t resync_explain(struct graph *graph, const struct walked *frame, place_t caller);

#endif
