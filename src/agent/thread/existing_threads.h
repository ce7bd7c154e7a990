// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_EXISTING_THREADS_H
#define CAIRN_AGENT_THREAD_EXISTING_THREADS_H

// Threads that were there before the agent.
//
//   one thread, asked by the tool      each other thread, at its first tick
//   finds it, opens its clock     ──►  says who it is, gets a tree and a tracker
//
// So no thread is stopped or woken, and one that does nothing costs nothing.

#include "agent/thread/thread.h"

// In normal context, with the recording active: clocks for all threads there are. One of them is
// the tool's (0: none), and gets none. 0, or -ENOTSUP: waiting may not be seen here.
int thread_list_meet_all(pid_t of_tool);

// The end of that, when no event begins any more (counted_switch_off): no thread has a clock, a
// marker or a tree any more when this returns. Fills in the threads that a tick may still be on its
// way to, as many as there is room for, and returns how many they are.
unsigned thread_list_leave(int32_t *ticked, unsigned room);

// The calling thread, in the handler of a tick that finds no thread: NULL if it has no clock of
// ours. Signal-safe.
struct thread *thread_begin_existing(const void *ucontext);

// The same in normal context, before it forks or becomes another program, or at an event of its
// own: for a caller of a function of ours, if that is known.
void thread_begin_existing_here(const struct caller_registers *caller);

#endif
