// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_H
#define CAIRN_TRACK_CONTEXT_H

// The calls that the hook's short way knows (calls_x86_64.S), in a table that is only a cache. They
// are on the thread's own stack.
//
// A call is told by its site, the function entered, and the slot: recursion has the same site and
// function over and over, but at each depth another slot. That makes the cell of the caller the
// same, too, if its place is a matter of the slot alone; else there is a condition:
//
//   by frame ptr  also = low half of the frame pointer
//   bridged       what lies at slot + also is, still, what it was: the return address of the first
//                 function of those that are not followed, between the call and the followed caller
//
// With it goes the child that it led to last, which is the right one if its parent is the node in
// the caller's cell. If not, there is a second table, of nodes by their parent and edge, and what
// is found there is what the call has led to last.
//
// A context is where site, function and slot hash to, or in the place beside; so is a node.

#include "track/shadow.h"

enum { CONTEXT_BY_FP = 1, CONTEXT_BRIDGED = 2 }; // in the lowest bits of a context's place

// What a walk, or an edge memo, has found out about a call.
struct known_call {
    uintptr_t *slot;
    uintptr_t back, bp;
    enum caller_rule rule; // how the caller's slot is found, from the slot or from the pier
    uintptr_t caller_slot; // 0: not on this stack
    uintptr_t pier;        // slot of the function that the caller called, 0: the one entered
    struct node *caller;
    bool ours;        // made by the agent: not to be counted
    place_t function; // that its memo shall check the caller's cell by, or 0
};

// Lets the short way know a call of the child. With the tree shut.
void context_keep(struct calls_thread *calls, const struct known_call *call, struct node *child);

// Nodes or addresses have another meaning now.
void context_forget_all(struct calls_thread *calls);

#endif
