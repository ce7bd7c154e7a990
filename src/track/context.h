// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_H
#define CAIRN_TRACK_CONTEXT_H

// The calls that the hook's short way knows (calls_x86_64.S), in a table that is only a cache.
//
// A call is told by its site, the function entered, and the slot: recursion has the same site and
// function over and over, but at each depth another slot. That makes the cell of the caller the
// same, too, if its place is a matter of the slot alone; else there is one more thing to compare:
//
//   by slot       place = the slot
//   by frame ptr  place = the slot | 1          also = low half of the frame pointer
//   bridged       place = what must lie, still, at the slot + also: the return address of the first
//                 function of those that are not followed, between the call and the followed caller
//
// A context is where these hash to, whichever caller's node came first. Those by other nodes are
// where that and the caller's node hash to.

#include "track/shadow.h"

// What a walk, or an edge memo, has found out about a call.
struct known_call {
    uintptr_t *slot;
    uintptr_t back, bp;
    enum caller_rule rule; // how the caller's slot was found; by slot: bridged, if there is a pier
    uintptr_t caller_slot; // 0: not on this stack
    uintptr_t pier;        // slot of the function that the caller called, 0: the one entered
    struct node *caller;
};

// Lets the short way know a call of the child, which has its cell. With the tree shut.
void context_keep(struct calls_thread *calls, const struct known_call *call, struct node *child);

// Cells, nodes or addresses have another meaning now.
void context_forget_all(struct calls_thread *calls);

#endif
