// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_SIGNALS_H
#define CAIRN_AGENT_INTERPOSE_SIGNALS_H

// Our signals, and the program's belief that they are its own.
//
// The agent handles SIGTRAP (and the clock's signal). The program may install handlers for them,
// block them, and ask what is installed: it gets the answers that it would get without us. Signals
// that are not our ticks go to the program's handler, or do what the default action does.

#include "agent/thread/thread.h"
#include <signal.h>

// Installs the handler. Remembers what the program inherited. Not signal-safe.
int signals_start(void);

// The program has its own handlers again. Only when no tick can come any more. 0 or -errno.
int signals_stop(void);

// Before exec: the new program inherits what the old one believed to be set.
void signals_before_exec(void);
void signals_after_failed_exec(void);

// Around posix_spawn, whose child inherits likewise. False: there is nothing to hand over.
bool signals_before_spawn(void);
void signals_after_spawn(void);

// The signals that a thread may really block while it waits: all that it asks for, except ours
// where call sites are patched, since its handlers may then meet a trap. Signal-safe.
const sigset_t *signals_open_mask(const sigset_t *set, sigset_t *stripped);

// Makes the mask real that the program believes the calling thread to have; in a child of vfork, once.
void signals_show_mask(const struct thread *thread);
void signals_show_mask_in_vfork_child(struct thread *thread);

// Changes the mask as the program does by syscall(); the sets are those of the kernel.
int signals_change_mask(int how, const uint64_t *set, uint64_t *before);

// Calls a handler of the program. A function of its own, which trackers know: frames above it are
// the program's.
__attribute__((noipa)) void signals_hand_on(const struct sigaction *action, int signal,
                                            siginfo_t *info, void *context);

// Handlers of the program that want an alternate stack: the kernel enters a function of ours for
// them. Whether this is it; and the action that the program has, for one that the kernel has
// returned.
bool signals_wraps(void (*handler)(int));
void signals_unwrap(int signal, struct sigaction *action);

// The reason of a tick.
enum tick {
    TICK_PERIOD, // the thread has run for so long
    TICK_WAIT,   // it goes on after it has waited
    TICK_OFFCPU, // the same, and the offcpu event notes it
    TICK_COUNTER // a counter has counted a period: the first one, the others follow
};

// The tick: implemented in sample.c.
void sample_tick(void *ucontext, enum tick tick);

#endif
