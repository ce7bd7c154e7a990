// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_H
#define CAIRN_TRACK_CALLS_H

// The calls tracker: every call of an instrumented function moves a cursor in the tree. Only
// entries are hooked. The slot that holds a function's return address tells which activations have
// ended:
//
//   shadow stack            program's stack, growing down
//   [ root   | ∞    ]       ...
//   [ main   | 0x90 ]       0x90: return address of main
//   [ f      | 0x60 ]       0x60: return address of f          a call of g with its return address
//   [ h      | 0x30 ]       (h has returned)             ◄──   by a call site in f: the unwind
//   table
//                                                              tells that f's own slot is 0x28
//                                                              above 0x38, at 0x60: h is over, f is
//                                                              not
//
// So returns cost nothing, and longjmp, exceptions and tail calls (same slot: the caller is
// replaced) need no special case. Where the caller's slot lies, seen from that of the function it
// calls, is a matter of the call site alone (or of the frame pointer), and is remembered with it.
// That an entry lies above the new slot is not enough: f may have put arguments for g where h's
// slot was, and then h would pass for the caller of g.
//
// A function called by code that was not instrumented (qsort's comparison) hangs below the nearest
// instrumented caller, and the call site is the true one; that caller is found by a walk that ends
// at the first frame with an entry in the shadow. So do signal handlers. Each stack has a shadow of
// its own.

#include "live/live.h"
#include "tree/tree.h"
#include "unwind/unwind.h"
#include <stdbool.h>

struct shadow_entry {
    uintptr_t slot;
    struct node *node;
};

// How the slot of the caller is found from that of the function called.
enum caller_rule {
    CALLER_UNKNOWN, // by a walk
    CALLER_BY_SLOT, // at a distance from the slot
    CALLER_BY_FP,   // at a distance from the frame pointer, which is still the caller's
    CALLER_LOADED,  // at a distance from what lies at a distance from the frame pointer
};

// What the hook has seen: a call site and the function entered, as raw addresses, and their edge.
struct edge_memo {
    uintptr_t site;
    uintptr_t back; // where the hook returns to, in the function
    ref_t edge;
    int32_t distance;
    uint32_t rule; // enum caller_rule
    int32_t inner; // of CALLER_LOADED
};

// Callers that were not instrumented, between a followed function and one that it led to. As long
// as the return address of the first of them is in its place, so are all.
struct bridge {
    uintptr_t site, slot;    // of the call
    uintptr_t parent;        // slot of the followed function
    uintptr_t pier, returns; // slot of the first unfollowed one, and what lies there
};

// A call that a signal's handler made while the tree was being changed.
struct missed_call {
    uintptr_t slot, site, back;
};

#define EDGE_MEMOS 4096
#define OTHER_STACKS 8
#define BRIDGES 16
#define MISSED_CALLS 64

// The shadow of one stack. entries[0] is the root and never popped.
struct shadow {
    struct shadow_entry *entries;
    size_t capacity;
    struct shadow_entry *top; // while another one is active
    uintptr_t low, high;      // the stack it belongs to, as far as it is known
};

struct calls_thread {
    // The hook's own: calls_x86_64.S knows where these lie.
    struct shadow_entry *top; // 0
    uintptr_t low, span;      // 8, 16: of the stack in use; a slot elsewhere goes the long way.
                              // span is 0 inside of the tree: a signal's handler must not enter it
    unsigned char *base;      // 24: of the arena
    uint64_t generation;      // 32: of calls_generation, when the cursor was last known to be right
    uint64_t amount;          // 40: what a call counts for
    uint64_t unused[2];
    struct edge_memo memos[EDGE_MEMOS]; // 64
    // The long way's.
    struct arena *arena;
    ref_t tree;
    struct live_stats *stats;
    struct shadow own;
    struct shadow others[OTHER_STACKS];
    struct shadow *active;
    unsigned next_other;
    struct bridge bridges[BRIDGES];
    unsigned missed_count; // atomic towards signal handlers
    bool only_missed;      // the hook goes the longest way for these alone
    struct missed_call missed[MISSED_CALLS];
    uint32_t map_generation; // of the load map that the memos were made for
    bool folds;              // recursion: a function has one node on a path
};

// Changes when cursors or memos may be wrong: a library went, or calls were not followed for a
// while.
extern _Atomic uint32_t calls_generation;

// The calling thread's, NULL if it is not followed.
extern __thread struct calls_thread *calls_current;

// Finds the instrumented functions of the program and switches them on. In normal context, before
// the program runs. The number of functions, or -errno.
int64_t calls_start(void);

// A library was unloaded. In normal context.
void calls_note_unload(void);

// Hooks on or off, for all threads; those that come back on find their cursors by a walk.
// Signal-safe.
void calls_switch(bool on);

// Puts the cursor of the calling thread where the interrupted code is. The node there. Signal-safe.
struct node *calls_find_cursor(struct calls_thread *calls, const void *ucontext);

// What a function built with -finstrument-functions tells of itself.
struct told_call {
    uintptr_t function, site;
    uintptr_t hook_site; // where the hook returns to
    uintptr_t level;     // the stack pointer at the call of the hook
};

// It was entered, or is about to return.
void calls_function_entered(struct calls_thread *calls, const struct told_call *call);
void calls_function_left(struct calls_thread *calls, const struct told_call *call);

// A follower for the calling thread, in pages of its own. 0 or -errno.
int calls_open(struct calls_thread *calls, struct arena *arena, ref_t tree,
               struct live_stats *stats, struct unwind_bounds stack);
void calls_close(struct calls_thread *calls);

// The node of the calling thread at interrupted code: the cursor, after what has ended is popped;
// and a statement below. 0: not now (inside of the tree). Signal-safe.
ref_t calls_sample(struct calls_thread *calls, const void *ucontext);

#endif
