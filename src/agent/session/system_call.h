// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_SYSTEM_CALL_H
#define CAIRN_AGENT_SESSION_SYSTEM_CALL_H

// System calls of the agent's own: past what it interposes for the program. Signal-safe.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>

// As the kernel has it.
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

// Without a look at it. In interpose/syscall_x86_64.S.
__attribute__((visibility("hidden"))) long syscall_raw(long number, ...);

// The syscall() of all code but the agent's. Set once, before the program runs.
extern __attribute__((visibility("hidden"))) __typeof__(&syscall_raw) syscall_next;

// The program has forbidden itself some calls. In interpose/seccomp.c.
extern bool seccomp_holds __attribute__((visibility("hidden")));

// A limit as the kernel has it, not as the program sees it. 0 or -1.
static inline int system_limit(int resource, struct rlimit *limit)
{
    const struct rlimit *const none = NULL;
    return (int)syscall_raw(SYS_prlimit64, 0, resource, none, limit);
}

#endif
