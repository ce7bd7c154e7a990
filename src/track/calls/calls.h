// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_CALLS_H
#define CAIRN_TRACK_CALLS_CALLS_H

// The calls tracker: every call of an instrumented function moves a cursor in the tree. Only
// entries are hooked. The slot that holds a function's return address identifies its activation,
// and the *shadow* of a stack has a cell for each of its words: the node of the function whose
// return address lies, or last lay, there.
//
//   program's stack, growing down        shadow
//   0x90  return address of main         [ main ]
//   0x60  return address of f            [ f    ]    a call of g by f, with its return address at
//   0x40                                 [ h    ]    0x38: the unwind table tells that f's slot is
//   0x38  return address of g      ◄──   [ g    ]    0x28 above that of g, so the caller's node is
//                                                    in the cell of 0x60. h has returned.
//
// A cell is read only for a function that is active, and whose own hook has written it. So returns
// cost nothing, nothing is ever popped, and longjmp, exceptions and tail calls (same slot: the
// caller is replaced) need no special case. Where the caller's slot lies, seen from that of the
// function it calls, is a matter of the call site alone (or of the frame pointer), and is
// remembered with it.
//
// A function called by code that was not instrumented (qsort's comparison) goes below the nearest
// instrumented caller, with its true call site. A walk finds that caller: it ends at the first
// frame with a valid cell. So do signal handlers. Each stack has a shadow of its own.
//
// A call that was seen before, with the same return address in the same slot by the same caller's
// node, is one look at a table of such calls (struct known_context), and two stores.

#include "live/live.h"
#include "track/calls/bursts/burst_pace.h"
#include "track/calls/hook_stack.h"
#include "tree/tree.h"
#include "unwind/unwind.h"
#include <stdbool.h>
#include <sys/types.h>

struct tracker_place;

// How the slot of the caller is found from that of the function called.
enum caller_rule {
    CALLER_UNKNOWN, // by a walk
    CALLER_BY_SLOT, // at a distance from the slot
    CALLER_BY_FP,   // at a distance from the frame pointer, which is still the caller's
    CALLER_LOADED,  // at a distance from what lies at a distance from the frame pointer
};

// A call site and the function entered, as raw addresses, and their edge.
struct edge_memo {
    uintptr_t site; // the word in the slot: the return address, but for call_sites.h
    uintptr_t back; // where the hook returns to, in the function
    ref_t edge;
    int32_t distance;
    uint32_t rule;  // enum caller_rule
    int32_t inner;  // of CALLER_LOADED
    place_t caller; // the function that makes the call; 0: it is noticed whenever it is entered
};

// A call that the hook's short way knows: call_cache.h.
struct known_context {
    uintptr_t site;   // 0
    uintptr_t place;  // 8: its slot, and in the lowest bits what else must hold
    uint32_t back;    // 16: where the hook returns to, the lower half
    ref_t child;      // 20: that it led to last
    ref_t edge;       // 24: of the child
    int32_t distance; // 28: from its cell to that of the caller, in bytes
};

// Further conditions: words of the stack, at distances from the slot, and a frame pointer.
struct condition {
    uintptr_t returns;   // 0
    uintptr_t bottom;    // 8
    uint32_t returns_at; // 16
    uint32_t bottom_at;  // 20
    uint32_t pointer;    // 24: the lower half
    uint32_t pointer_at; // 28: where it was saved
};

// A node, by its parent and its edge.
struct kept_child {
    uint64_t key; // 0: the edge in the upper half, as in a node
    ref_t node;   // 8
    uint32_t unused;
};

// A frame between a missed call and the hook that was interrupted.
struct deferred_frame {
    place_t site, function;
};

#define MISSED_FRAMES 12

// A call that a signal's handler made while the tree was being changed: deferred_calls.c.
struct deferred_call {
    uintptr_t slot, site, back;
    uintptr_t hook;                     // slot of the hook that was interrupted; 0: not noted yet
    const struct deferred_call *caller; // that the frames begin above of; NULL: the hook
    struct node *node;                  // that it turned out to be
    unsigned frames;                    // the youngest first
    struct deferred_frame frame[MISSED_FRAMES];
};

// A function of a program built with -finstrument-functions, and where it was entered.
struct cyg_entry {
    uintptr_t level;
    struct node *node;
};

// A frame that a walk has found without a valid cell.
struct walked_frame {
    uintptr_t slot;
    ref_t edge;
};

#define CONTEXTS 16384
#define CHILDREN 8192
#define EDGE_MEMOS 4096
#define OTHER_STACKS 32
#define MISSED_CALLS 1024
#define SUSPECTS 64

// A function that was found being called between bursts: burst.c.
struct suspect {
    uint32_t back;  // where its hook returns to, the lower half
    uint32_t burst; // the last one when that began
    uint32_t times;
};

// The shadow of one stack.
struct shadow {
    ref_t *cells;
    size_t bytes;
    uintptr_t low, high;              // the stack it belongs to, as far as it is known
    struct cyg_entry *told, *cyg_top; // NULL: none of its functions tell
    size_t told_bytes;
};

struct calls_thread {
    // The hook's own: calls_x86_64.S knows where these lie.
    uint64_t generation;     // 0: of calls_generation, when the cells were last known to be right;
                             // 0 inside of the tree: a signal's handler must not enter it
    uint64_t amount;         // 8: the weight of a call
    uintptr_t own_shift;     // 16: from half a slot of the thread's own stack to its cell
    unsigned char *base;     // 24: of the arena
    struct hook_stack stack; // 32
    struct known_context contexts[CONTEXTS]; // 64, in pairs
    struct condition conditions[CONTEXTS];   // of those that have one
    struct kept_child children[CHILDREN];    // in pairs
    // The long way's.
    struct edge_memo memos[EDGE_MEMOS];
    struct arena *arena;
    ref_t tree;
    struct node *root;
    struct live_stats *stats;
    struct shadow own;
    struct shadow others[OTHER_STACKS];
    struct shadow *active;
    unsigned next_other;
    uint64_t open_generation; // the generation when the tree is not shut
    uintptr_t shut_slot;      // of the hook that has shut it
    uintptr_t frozen; // slot of a handler that has interrupted a hook: see call_cache_keep()
    struct walked_frame *walked;
    size_t walked_capacity;
    unsigned deferred_count; // atomic towards signal handlers
    struct deferred_call missed[MISSED_CALLS];
    uint32_t map_generation;          // of the load map that the memos were made for
    struct pace pace;                 // burst.c's
    uint32_t burst_seen, burst_ticks; // the burst that its clock has ticked in, how often
    struct suspect suspects[SUSPECTS];
    bool folds;  // recursion: a function has one node on a path
    bool beside; // the event is another one: calls are counted where there is a place
    bool exact;  // the hook takes every node that it knows for what it was: none may be forgotten
    unsigned char stack_memory[HOOK_STACK_BYTES];
};

// Changes when cursors or memos may be wrong: a library went, or calls were not followed for a
// while.
extern _Atomic uint32_t calls_generation;

// They are followed in bursts (burst.h). Set before the program runs.
extern bool calls_in_bursts;

// The calling thread's, NULL if it is not followed.
extern __thread struct calls_thread *calls_current;

// Finds the instrumented functions of the program and switches them on; if it has none, its call
// sites are patched instead, unless `by` says otherwise. In normal context, before the program
// runs. Exact: in full trees, calls count for one each. `hands_on` is the function of the agent
// that calls handlers of the program. The number of functions, or -errno: sites cannot be patched
// here.
int64_t calls_start(enum live_by by, bool exact, struct live_encode *counts, uintptr_t hands_on);

// A thread begins in the function, whose return address will lie in the slot. Nothing else reports
// this call. In normal context.
void calls_enter_root(uintptr_t function, uintptr_t *slot, uintptr_t bp);

// A library was unloaded. In normal context.
void calls_note_unload(void);

// Hooks on or off, for all threads; those that come back on find their cursors by a walk.
// Signal-safe.
void calls_switch(bool on);

// Between bursts: the function whose hook returns there is called often. For who may switch.
void calls_quieten(uintptr_t back);

// Calls of the calling thread pass: when they are followed again, a walk finds the cursor.
// Signal-safe.
void calls_lose_cursor(struct calls_thread *calls);

// Puts the cursor of the calling thread where the interrupted code is. The node there. Signal-safe.
struct node *calls_find_cursor(struct calls_thread *calls, const void *ucontext);

// A call of a function built with -finstrument-functions, as the function reports it.
struct cyg_call {
    uintptr_t function, site;
    uintptr_t hook_site; // where the hook returns to
    uintptr_t level;     // the stack pointer at the call of the hook
};

// It was entered, or is about to return.
void calls_function_entered(struct calls_thread *calls, const struct cyg_call *call);
void calls_function_left(struct calls_thread *calls, const struct cyg_call *call);

// A follower for the calling thread, in new pages of its own: most are never touched. 0 or -errno.
int calls_open(struct calls_thread *calls, const struct tracker_place *place);
void calls_close(struct calls_thread *calls);

// The node of the calling thread at interrupted code: the cursor, after what has ended is popped;
// and a statement below. 0: not now (inside of the tree). Signal-safe.
ref_t calls_sample(struct calls_thread *calls, const void *ucontext);

#endif
