// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_INTERRUPTED_CALL_H
#define CAIRN_AGENT_THREAD_INTERRUPTED_CALL_H

// System calls that a signal has interrupted, as our handler finds them.
//
// A signal of the program's that wakes a thread in a system call, and a tick, may be delivered at
// the same exit from the kernel. The tick comes first, as synchronous signals do, and the kernel
// judges the call by the first handler alone:
//
//   read() sleeps ── SIGALRM wakes it ── tick's handler ── SIGALRM's handler ── read() ...
//                                        (SA_RESTART: the call is taken back)   sleeps again
//
// So the tick's handler judges the call by the signal that is pending behind it.

#include <stdbool.h>

// Set where the program has forbidden itself to ask what is pending.
extern bool interrupted_call_unknown;

// In the handler of a tick that has met an interrupted call: gives it the end that it has without
// the tick. Signal-safe.
void interrupted_call_by_tick(void *ucontext);

// In the handler of a signal that is the program's, whose own handler does not restart calls.
// Signal-safe.
void interrupted_call_for_good(void *ucontext);

// After a call that waits with another mask has failed with EINTR: true if a handler that this mask
// lets in has not run yet. The tick's handler has run in its place and has put the thread's own
// mask back. The call has to be repeated, and then returns at once. Keeps errno.
bool interrupted_call_too_early(const void *mask);

#endif
