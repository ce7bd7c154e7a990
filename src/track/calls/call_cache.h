// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_CALL_CACHE_H
#define CAIRN_TRACK_CALLS_CALL_CACHE_H

// The calls that the hook's short way knows (calls_x86_64.S), in a table that is only a cache. They
// are on the thread's own stack.
//
// The key of a call is its site, the function entered, and the slot: recursion has the same site
// and function over and over, but at each depth another slot. That makes the cell of the caller the
// same, too, if its place is a matter of the slot alone; else there is a condition:
//
//   by frame ptr  it is what it was: `pointer`
//   bridged       between the call and the caller lie functions that are not followed. Where those
//                 begin there is, still, the return address that was there. If a frame on the way
//                 is found by its frame pointer (qsort() takes room from the stack, more or less)
//                 that is what it was, too, where it was saved or (both conditions) in its
//                 register. By call sites the caller may be one that is not always noticed, as
//                 qsort() itself: then its own return address must be that of the call that was.
//
// With it goes the child that it led to last, which is the right one if its parent is the node in
// the caller's cell. If not, there is a second table, of nodes by their parent and edge, and what
// is found there is what the call has led to last.
//
// A context is where site, function and slot hash to, or in the place beside; so is a node.

#include "track/calls/shadow.h"

// In the lowest bits of a context's place.
enum {
    CALL_CACHE_BY_FP = 1,
    CALL_CACHE_BRIDGED = 2,
    CALL_CACHE_BY_BOTTOM = 4, // with a bridge; looked at for the first condition, too
};

#define POINTERS 2

struct frame_pointer {
    uintptr_t value;
    uintptr_t slot; // where it was saved; 0: it is in its register
};

// A call as a walk, or an edge memo, has found it.
struct known_call {
    uintptr_t *slot;
    uintptr_t back, bp;
    enum caller_rule rule; // how the caller's slot is found, from the slot or from the pier
    uintptr_t caller_slot; // 0: not on this stack
    uintptr_t pier;        // slot of the function that the caller called, 0: the one entered
    bool noticed;          // the caller always is
    // Frame pointers that frames were found by, from the one entered up to the caller.
    unsigned pointers; // more than there is room for: not known
    struct frame_pointer pointer[POINTERS];
    struct node *caller;
    bool ours;        // made by the agent: not to be counted
    place_t function; // that its memo shall check the caller's cell by, or 0
};

// Where a node is kept, by its parent and its edge: as calls_x86_64.S has it.
static inline struct kept_child *call_cache_place_of_node(struct calls_thread *calls, ref_t parent,
                                                          ref_t edge)
{
    const uint64_t key = (uint64_t)edge << 32 | parent;
    return &calls->children[key * UINT64_C(0x9e3779b97f4a7c15) >> 51];
}

// Lets the short way know a call of the child. With the tree shut.
void call_cache_keep(struct calls_thread *calls, const struct known_call *call, struct node *child);

// Nodes or addresses have another meaning now.
void call_cache_forget_all(struct calls_thread *calls);

#endif
