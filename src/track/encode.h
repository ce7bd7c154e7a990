// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_H
#define CAIRN_TRACK_ENCODE_H

// The encode tracker: call sites are led through stubs that keep the context of each thread as a
// number (docs/encode.md tells how, and what this part does of it).
//
//   main's sites get hooks ─► somebody asks: what is on the stack has its sites led to hooks ─►
//   a hook runs: edge met ─► ... ─► re-encoding: encoded edges add their number or run as they were
//   compiled, the others go on pushing
//
//   encode_graph.c     functions, sites and edges as they are met
//   encode_silent.c    what cannot be patched
//   encode_facts.c     which functions can have numbers
//   encode_quiet.c     which need none: their callers' will do
//   encode_demand.c    which are worth it
//   encode_stub.c      what a site leads to by the encoding
//   encode_heat.c      how hot edges are, by what they push
//   encode_hook.c      what a hook does, and encoding anew
//   encode_epoch.c     encodings that threads are on
//   encode_thread.c    start and end, the lock
//   encode_unwind.c    exceptions, which take frames away
//   encode_stack.c     a stack walk, and the state that it stands for
//   encode_sample.c    from a sample to its node
//   encode_here.c      from an event that the program makes itself to its node
//   encode_worth.c     whether numbers pay for those
//
// One rule makes all of it safe to mix: what a frame undoes when it returns is told by its return
// address alone. A hook's stub pops an entry, a delta's takes its number off, original code does
// nothing. So the state for any stack can be computed from its return addresses, at any time.

#include "live/live.h"
#include "track/walk.h"

struct encode_thread;

// The calling thread's, or NULL. Read in the signal handler.
extern __thread struct encode_thread *encode_current;

// While our own handler runs: what it calls in libc may be patched, and means nothing.
extern __thread uint32_t encode_in_handler;

// Once, in normal context, after loadmap_start(), before there are threads. What it counts goes to
// `counts`. 0 or -errno: call sites cannot be patched here.
// `restless`: for tests, encodes anew all the time.
int encode_start(struct live_encode *counts, bool verify, bool restless);

// A thread begins in this function: the calling one, whose sites of the root get hooks. NULL: no
// memory, or nothing was started.
struct encode_thread *encode_open(uintptr_t root, struct unwind_bounds stack);
void encode_close(struct encode_thread *thread); // the calling thread's

// From now on there may be several threads. `frame` is the frame address of the function that the
// program has called to make the first one.
void encode_expect_threads(const void *frame);

// Around fork: nobody else changes anything meanwhile. Then encode_after_fork() in the child
// (NULL: what it counts is for nobody).
void encode_before_fork(void);
void encode_after_fork_in_parent(void);
void encode_after_fork(struct live_encode *counts);

// Around dlclose. `frame` is the frame address of the function that the program has called.
void encode_before_unload(const void *frame);
void encode_after_unload(void);

// The calling thread is about to longjmp: the state is that of where it lands. `frame` is the frame
// address of the function that the program called for it.
void encode_jump(const void *buffer, const void *frame);

// The state of the calling thread may be wrong: the next hook, or sample, computes it anew.
void encode_distrust(void);

// The node of a sample: by its number, or by a walk. Signal-safe.
ref_t encode_sample(struct encode_thread *thread, struct walker *walker, void *ucontext,
                    uint64_t weight);

// The same on a stack of ours: in a handler, which may have been given little room, and in which
// all signals are blocked.
ref_t encode_sample_aside(struct encode_thread *thread, struct walker *walker, void *ucontext,
                          uint64_t weight);

#endif
