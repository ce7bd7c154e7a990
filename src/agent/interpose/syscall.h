// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_SYSCALL_H
#define CAIRN_AGENT_INTERPOSE_SYSCALL_H

// System calls that the program makes by libc's syscall(). The agent sees those that change
// handlers, masks and alternate stacks, allowed system calls, limits, and locked memory.

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Those that are seen.
__attribute__((visibility("hidden"))) long
syscall_watched(long number, unsigned long first, unsigned long second, unsigned long third,
                unsigned long fourth, unsigned long fifth);

// SYS_prctl and SYS_seccomp: see seccomp.c.
long seccomp_call(long number, const unsigned long argument[5]);

#endif
