// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_THREAD_STATE_H
#define CAIRN_TRACK_ENCODE_THREADS_THREAD_STATE_H

// The part of a thread that hooks and stubs read and change, and the words that tell them what to
// do.

#include "encode/state.h"
#include <stdatomic.h>

struct encode_thread;

enum { ENCODE_EDGES = 1 << 19 }; // more push, by hooks

// By edge.
struct encode_words {
    _Atomic int64_t word[ENCODE_EDGES];
    _Atomic uint64_t first[ENCODE_EDGES]; // what the id of the callee begins with after a push
};

// A tail jump went to a function that the thread's encoding does not know there. In that function,
// and in all that it calls, the number of the thread means nothing.
struct encode_unknown_jump {
    uintptr_t slot;    // of the return address that is on top of the stack at the jump; 0: none
    uintptr_t returns; // the address: if it is another one, the function has returned
    uint32_t edge;     // the newest of such edges: an encoding that knows it knows all of them
};

// Whether the state of a thread is that of its stack.
enum encode_validity {
    STATE_VALID,
    // Not surely: there are frames of calls that were made before they were followed; or a handler of
    // the program runs that has left frames without a return. The interrupted code may be between a
    // call and its state update, which the stack does not tell.
    STATE_UNSURE,
    STATE_STALE,     // not surely: the next hook, or sample, computes it from the stack
    STATE_UNWINDING, // the same, once the unwinder is gone that has come by a stub
};

// Of each thread, at offsets that the hooks in assembler know.
struct encode_state {
    struct context_state context;
    uint32_t validity; // enum encode_validity
    struct encode_thread *thread;
    uintptr_t stack_low, stack_bytes; // the thread's own stack; 0: the slow path alone
    int32_t countdown;                // pushes until one is looked at
    uint32_t countdown_from, random;
    // Stubs read these: the thread's own words, or those that lead to the slow path. The thread
    // writes; so does who publishes a new encoding, under the lock, the latter ones.
    struct encode_words *_Atomic words;
    uint64_t base;  // what an id is after a push, in the encoding that the thread is on
    uint32_t stamp; // of that
    // Exceptions of C++ that are not caught yet, as its runtime counts them; NULL: none was thrown.
    const unsigned *uncaught;
    bool foreign; // somebody else has thrown, and nobody tells whether it was caught
    // Calls from deeper than where an unwinder was last seen are its own, mostly: all but one in
    // some are not looked at.
    uintptr_t unwinder_sp;
    uint32_t unwinder_calls;
    struct encode_unknown_jump jump; // the oldest that has not returned
};

// Whether code that runs with that stack pointer was reached by the jump. Signal-safe.
static inline bool encode_is_below_jump(const struct encode_state *state, uintptr_t sp)
{
    const struct encode_unknown_jump *jump = &state->jump;
    return jump->slot && sp <= jump->slot && *(const uintptr_t *)jump->slot == jump->returns;
}

extern __thread struct encode_state encode_state;

#endif
