// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_ENCODE_H
#define CAIRN_TRACK_ENCODE_ENCODE_H

// The encode tracker: call sites are led through stubs that keep the context of each thread as a
// number (docs/encode.md tells how, and what this part does of it).
//
//   main's sites get hooks ─► a hook runs: the edge is added, and the sites of the callee get
//   hooks ─► ... ─► re-encoding: encoded edges add their number or run their original code, the
//   others go on pushing
//
//   sites/      call_graph.c        functions, sites and edges as they are met
//               silent_edges.c      transfers of control that cannot be patched
//               open_functions.c    which functions can have numbers
//               leaf_functions.c    which need none
//               stubs.c             what a site leads to by the encoding
//               libraries.c         libraries that come and go; the end of all encoding
//   threads/    threads.c, lock.c   start and end of the tracker and of its threads
//               hooks.c, *.S        what runs before and behind a call
//               epoch.c             encodings that threads are on
//               reencode.c          making one; count_pushes.c tells when
//               state_from_stack.c  the state that a stack stands for
//               longjmp.c, exceptions.c    which take frames away
//   contexts/   sample.c            from a sample to its node
//               event_context.c     the same for an event that the program makes
//               requested_context.c contexts that the program asks for
//               decode_state.c, climb.c, insert_path.c    what these share
//
// One rule makes all of it safe to mix: what a frame undoes when it returns is told by its return
// address alone. A hook's stub pops an entry, another stub undoes the word of its edge, original
// code does nothing. So the state for any stack can be computed from its return addresses, at any
// time.

#include "live/live.h"
#include "track/walk/walk.h"

struct encode_thread;

// The calling thread's, or NULL. Read in the signal handler.
extern __thread struct encode_thread *encode_current;

// Once, in normal context, after loadmap_start(), before there are threads. It counts in
// `counts`. 0 or -errno: call sites cannot be patched here.
int encode_start(struct live_encode *counts, const struct live_options *options);

// Calls of these functions, which are ours and call nothing of the program's, are left as they are:
// in them, the number is that of their caller. Before there is a thread.
void encode_leave_calls(const uintptr_t *functions, unsigned count);

// And these are what they may end in by a jump: the number of a sample there may be that of anybody
// who has called one of the former. No number tells it. Before there is a thread.
void encode_mark_reached_unseen(const uintptr_t *functions, unsigned count);

// A thread begins in this function: the calling one, whose sites of the root get hooks. NULL: no
// memory, or nothing was started.
struct encode_thread *encode_open(uintptr_t root, struct unwind_bounds stack);
void encode_close(struct encode_thread *thread); // the calling thread's

// From now on there may be several threads.
void encode_expect_threads(void);

// Around fork: nobody else changes anything meanwhile. Then encode_after_fork() in the child
// (NULL: what it counts is for nobody).
void encode_before_fork(void);
void encode_after_fork_in_parent(void);
void encode_after_fork(struct live_encode *counts);

// Whether the loader tells the tracker of libraries that it unloads, and that tells the load map.
bool encode_hears_of_unloading(void);

// The calling thread is about to longjmp: the state is that of where it lands. `frame` is the frame
// address of the function that the program called for it.
void encode_jump(const void *buffer, const void *frame);

// The state of the calling thread may be wrong: the next hook, or sample, computes it anew.
void encode_doubt_state(void);

// The node of a sample: by its number, or by a walk. Signal-safe.
ref_t encode_sample(struct encode_thread *thread, struct walker *walker, void *ucontext,
                    uint64_t weight);

// The same on a stack of ours: in a handler, which may have been given little room, and in which
// all signals are blocked.
ref_t encode_sample_aside(struct encode_thread *thread, struct walker *walker, void *ucontext,
                          uint64_t weight);

#endif
