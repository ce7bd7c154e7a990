// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_OUTSIDE_H
#define CAIRN_OUTSIDE_OUTSIDE_H

// Sampling of processes that the agent cannot enter, from outside.
//
//   kernel ── rings ──► a thread of the tool: walk, insert ──► slices of the shared memory ──► recorder
//
// The kernel writes the registers and a copy of the stack for each tick of a thread's clock. From
// these a call path comes into being as in the agent, and into a tree as the agent's. Each sample
// weighs its part of the CPU time that the process has used since the last reading.

#include "outside/slice.h"
#include <sys/types.h>

struct outside;

struct outside_options {
    struct outside_memory memory;
    uint64_t period_ns;
    bool kernel;      // its frames, too, where the kernel permits it
    bool follow_fork; // processes that a process makes are sampled, too
};

// NULL: no memory, or no thread.
struct outside *outside_open(const struct outside_options *options);

// Samples are taken until then. Ends the slices.
void outside_close(struct outside *outside);

enum outside_from {
    OUTSIDE_NOW,
    OUTSIDE_FROM_EXEC, // the process is about to become another program
};

// Samples a process, all of its threads, and the processes that it will make. 0 or -errno.
int outside_add(struct outside *outside, pid_t pid, enum outside_from from);

// The whole machine. 0 or -errno.
int outside_add_all(struct outside *outside);

// Reads what there is: before a process is waited for that has ended, so that its CPU time is known.
void outside_read(struct outside *outside);

// How much of a stack is copied; whether the kernel is seen.
uint32_t outside_stack_bytes(const struct outside *outside);
bool outside_sees_kernel(const struct outside *outside);

#define OUTSIDE_EVERYTHING ((pid_t)-1)

// Whether this process may sample another one (0: its children) from outside, or all of them. 0 or
// -errno.
int outside_try(pid_t pid);

#endif
