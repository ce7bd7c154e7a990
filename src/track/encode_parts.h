// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_PARTS_H
#define CAIRN_TRACK_ENCODE_PARTS_H

// Between the files of the encode tracker.

#include "encode/decode.h"
#include "encode/policy.h"
#include "patch/sites.h"
#include "track/encode.h"

// Of each thread, at offsets that the hooks in assembler know.
struct encode_state {
    struct machine machine;
    uint32_t over;      // calls that found no room on the stack: counted, not kept
    uint32_t attention; // the next hook goes the long way
    uint32_t in_flight; // exceptions that have not landed
    uint32_t patience;  // calls until that is not believed any more: not all languages tell
    uintptr_t throw_sp; // where the last one was thrown: what is deeper is the unwinder
    uint64_t pushes;    // not told yet
    struct encode_thread *thread;
    uintptr_t stack_low, stack_bytes; // the thread's own stack; 0: the long way alone
    int32_t countdown;                // pushes until one is looked at
    uint32_t countdown_from, lot;
};

extern __thread struct encode_state encode_state;

// A frame as a walk sees it.
struct encode_frame {
    uintptr_t slot; // of its return address; 0: a signal's frame
    place_t site, function;
};

enum {
    ENCODE_FRAMES = 1 << 16, // deeper stacks are not looked at
    ENCODE_STACK = 1 << 20,  // entries of ccStack
    ENCODE_CACHE = 1 << 12,  // contexts that are remembered
    ENCODE_ABOVE = 32,       // frames above the root, of libc and the agent
};

struct encode_memo { // a context that a walk has confirmed
    uint64_t key, id;
    place_t function;
    place_t site; // that the function was called from
    uint32_t stamp;
    ref_t tree, node;
};

struct encode_thread {
    struct encode_state *state;
    struct unwind_bounds stack;
    uintptr_t root_slot; // of the root's return address; 0: not known yet
    place_t root;
    bool has_signal, has_gap; // of the last walk: a signal's frame was met, or one without tables
    bool busy;                // a hook is on its long way
    bool jumping;             // the state is that of where a longjmp lands: perhaps not there yet
    uint32_t count;           // frames of the last walk, youngest first
    uint32_t path_count;      // of the last path that was decoded: at the end of `path`
    uint32_t ticks;
    struct encode_frame frames[ENCODE_FRAMES];
    struct walked walked[ENCODE_FRAMES];
    uint32_t path[ENCODE_FRAMES], before[ENCODE_FRAMES];
    uint32_t before_count;
    ref_t above_tree, above[ENCODE_ABOVE]; // edges that lead to the root in that tree, last first
    uint32_t above_count;
    struct encode_memo memo[ENCODE_CACHE];
    struct cc_entry entries[ENCODE_STACK];
};

struct encode_target { // of an indirect call or jump
    uintptr_t target;
    uint32_t edge;
    bool off; // an arm that is not taken
};

struct encode_targets {
    struct stub *chain;
    uint32_t chains; // that were made
    uint32_t arm_count;
    struct encode_target arm[STUB_ARMS]; // of the chain, in its order
    uint32_t count, room;
    struct encode_target one[];
};

struct encode_site {
    struct site *site;
    struct stub *hook, *delta, *wide;
    struct encode_targets *targets; // of an indirect one, once it was met
    uint32_t edge;                  // of a direct call, once it was made; GRAPH_NONE
};

struct encode {
    uint64_t base;           // of the encoding in force
    _Atomic uint32_t wanted; // enum reencode: the next hook encodes anew
    bool started, verify, frozen;
    bool failed; // sites could not be led to what the encoding says: all samples are walked
    struct pool pool;
    struct graph graph;
    struct numbering numbering;
    struct policy policy;
    struct policy_counters policy_counters;
    uint64_t encoded_at; // nanoseconds
    struct live_encode *counts;
    uintptr_t throws[2], catch_begin; // where exceptions are thrown, and have landed
};

extern struct encode encode __attribute__((visibility("hidden")));

// encode_graph.c; all under the lock but encode_site_of().

int encode_graph_start(void);
// The function at an address, with its sites led to hooks; GRAPH_NONE: no memory.
uint32_t encode_meet(uintptr_t address);
// The edge of a call that goes to `target` now; GRAPH_NONE: no memory.
uint32_t encode_edge(struct encode_site *site, uintptr_t target);
// A jump to where nobody could know before: the edge is silent.
void encode_tail(struct encode_site *site, uintptr_t target);
struct encode_site *encode_site_of(const struct site *site);
// Whether a function may be left silently in ways that are not in the graph. Signal-safe.
bool encode_is_open(uint32_t function);
struct encode_site *encode_site_number(uint32_t number); // NULL: no more
void encode_count_graph(void);
// Whether nothing but its site stands against a number for the edge.
bool encode_may_number(uint32_t edge);

// encode_stub.c; all under the lock

void encode_know_target(struct encode_site *site, uintptr_t target, uint32_t edge);
// Before the edges are numbered: which targets of indirect calls can have numbers.
void encode_choose_arms(void);
// What a site leads to by the encoding in force; NULL: its original code.
struct stub *encode_stub_for(struct encode_site *site);

// encode_stack.c

// Walks to the root. False: it was not met.
bool encode_walk(struct encode_thread *thread, struct unwind_cursor *cursor);
// What the walked stack stands for becomes the state. Signal-safe.
void encode_replay(struct encode_thread *thread, uintptr_t above);
// Leads the walked frames back to the code that their sites go through now.
void encode_move_returns(struct encode_thread *thread);
// Whether the walk and the path in thread->path are the same.
bool encode_compare(struct encode_thread *thread);

void encode_push(struct encode_state *state, uint32_t edge, bool repeats);
bool encode_repeats(uint32_t edge);

// encode_heat.c: a push that was looked at. Signal-safe.
void encode_count_push(struct encode_state *state, uint32_t edge);

// encode_place.c: for trees that forget

void encode_learn_above(struct encode_thread *thread, const struct walker *walker, ref_t node);
// The node of the path in thread->path, of the tree in which above was learnt. 0: no memory.
ref_t encode_place(struct encode_thread *thread, struct walker *walker);

// encode_hook.c, for the stubs
void encode_push_direct(void);
void encode_push_indirect(void);
void encode_before_direct(void);
void encode_before_indirect(void);
void encode_before_tail(void);
void encode_after(void);

#endif
