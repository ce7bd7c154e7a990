// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_THREAD_CREATION_H
#define CAIRN_TRACK_CONTEXT_ID_THREAD_CREATION_H

// Where threads were created. The creator's stack is walked once, in pthread_create(), and its
// frames become a path in the slice (struct live_creations). Paths that begin alike share nodes:
//
//   main ─ serve ─ call ─ clone3 ─ start_thread ─ worker ─ call      "call" is a call of
//             └─── call                                              pthread_create()
//
// The frames of a thread hang below the call that created it, so the last call of a path names all
// of it, back to main(). A thread keeps the number of the call that created it, and its tree does.
//
// All of it is bounded. If there is no room for a call, or it cannot be walked to the end, the new
// thread gets the call that created its creator; 0 if that is the main thread.

#include "live/live.h"
#include "tree/tree.h"
#include "unwind/unwind.h"

enum { CREATION_LEVELS = 32 }; // threads that created each other, on one path

// The call that created the calling thread; 0: not known, or the main thread. The code that begins
// a thread sets it.
extern __thread uint32_t creation_current;

// A new slice: of a process that begins, or of a child. Threads are created by at most so many
// different calls; 0: none is noted.
void creation_start(struct arena *arena, struct live_creations *live, uint32_t most_calls);

// In a child of fork, after creation_start(): takes over how the calling thread was created.
void creation_after_fork(const struct arena *from, const struct live_creations *parent);

// A call of pthread_create() by the calling thread: its caller, the bounds of the stack, and the
// function that the thread began in. The number of the call. In normal context; signals are blocked
// meanwhile.
struct creation_place {
    struct caller_registers caller;
    struct unwind_bounds stack;
    uintptr_t root;
};
uint32_t creation_note(const struct creation_place *place);

// A call that creates threads.
struct creation_call {
    place_t site;     // the return address
    place_t root;     // the function that the calling thread began in; 0: not known
    uint32_t creator; // the call that created that thread
    uint32_t frames;  // of that thread
};

// False: there is no such call. Its frames, youngest first, if there is room for all of them.
bool creation_read(uint32_t number, struct creation_call *call, struct edge *frames, uint32_t most);

#endif
