// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_SHADOW_H
#define CAIRN_TRACK_CALLS_SHADOW_H

// The parts of a follower of calls (calls.h): shadows of stacks, and what is remembered of call
// sites. For the files of the calls tracker alone.

#include "track/calls/calls.h"
#include "unwind/unwind.h"

static inline struct node *shadow_node(const struct calls_thread *calls, ref_t ref)
{
    return arena_at(calls->arena, ref);
}

static inline ref_t shadow_ref(const struct calls_thread *calls, const struct node *node)
{
    return (ref_t)(((const unsigned char *)node - calls->base) / 8);
}

static inline const struct edge *shadow_edge(const struct calls_thread *calls,
                                             const struct node *node)
{
    return arena_at(calls->arena, node->edge & ~TREE_UNMONITORED);
}

static inline bool shadow_holds(const struct shadow *shadow, uintptr_t slot)
{
    return shadow->cells && slot >= shadow->low && slot < shadow->high;
}

// The cell of a slot that the shadow holds.
static inline ref_t *shadow_cell(const struct shadow *shadow, uintptr_t slot)
{
    return shadow->cells + (slot - shadow->low) / sizeof(uintptr_t);
}

// A function was entered. The slot is on the stack in use.
static inline void shadow_enter(struct calls_thread *calls, uintptr_t slot, struct node *node)
{
    *shadow_cell(calls->active, slot) = shadow_ref(calls, node);
}

// The node in a cell, NULL if there is none.
static inline struct node *shadow_at(const struct calls_thread *calls, const ref_t *cell)
{
    return *cell ? shadow_node(calls, *cell) : NULL;
}

// The child of a node by that edge, made if it is new; with folded recursion the node of the same
// function among the node and its ancestors, if there is one. 0: no memory.
ref_t shadow_child(struct calls_thread *calls, const struct node *parent, ref_t edge);

// A call is the event, or is counted beside another one.
static inline void shadow_charge_for(struct calls_thread *calls, const struct node *node,
                                     uint64_t amount)
{
    (calls->beside ? tree_count : tree_charge)(calls->arena, calls->tree, shadow_ref(calls, node),
                                               amount);
}

static inline void shadow_charge(struct calls_thread *calls, const struct node *node)
{
    shadow_charge_for(calls, node, calls->amount);
}

// The shadow of a stack with these bounds. False: no memory.
bool shadow_open(struct shadow *shadow, uintptr_t low, uintptr_t high);
void shadow_close(struct shadow *shadow);

// The program runs on another stack than at the last hook. False: no memory to follow it.
bool shadow_switch(struct calls_thread *calls, uintptr_t slot);

// The shadow that holds a slot; NULL.
struct shadow *shadow_of(struct calls_thread *calls, uintptr_t slot);

// Calls were not followed for a while: whatever nodes there are in cells, their functions may have
// ended. `sp` is where the thread is: cells below are of no active function.
void shadow_forget_all(struct calls_thread *calls, uintptr_t sp);

static inline struct edge_memo *memo_of(struct calls_thread *calls, uintptr_t site, uintptr_t back)
{
    return &calls->memos[(site + (back >> 2)) % EDGE_MEMOS];
}

struct edge_memo *memo_keep(struct calls_thread *calls, uintptr_t site, uintptr_t back, ref_t edge);

// The edge of a call of the function whose hook returns to `back`, remembered together with the
// recipe of its caller's frame (NULL: not known, or not followed), and the function that the
// caller's cell must be of (0: any). 0: no memory. Takes the load map's word, which may take the
// loader's: vector registers do not survive this.
ref_t memo_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back,
                const union unwind_recipe *caller, place_t function);

// While the tree is being changed no hook may enter it: a signal's handler may call functions too.
// Afterwards the calls of such handlers are counted, where vector registers are saved
// (deferred_calls.h). `slot` is of the hook, or any below of it. calls_reopen() takes the result of
// calls_shut().
uintptr_t calls_shut(struct calls_thread *calls, uintptr_t slot);
void calls_reopen(struct calls_thread *calls, uintptr_t before);

#endif
