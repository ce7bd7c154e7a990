// SPDX-License-Identifier: MIT
// Handlers that a program installs by syscall() instead of sigaction(): see syscall_x86_64.S.

#include "agent/real.h"
#include "agent/signals.h"
#include "agent/syscall.h"
#include <string.h>
#include <unistd.h>

__typeof__(&syscall) syscall_next = syscall_raw;

// Early: before that, nobody is in between.
__attribute__((constructor(101))) static void look_up(void)
{
    __typeof__(&syscall) next = REAL(syscall);
    if (next)
        syscall_next = next;
}

static struct sigaction as_library(const struct kernel_action *action)
{
    struct sigaction made;
    memset(&made, 0, sizeof made);
    made.sa_handler = action->handler;
    made.sa_flags = (int)action->flags;
    made.sa_restorer = action->restorer;
    memcpy(&made.sa_mask, &action->mask, sizeof action->mask);
    return made;
}

static struct kernel_action as_kernel(const struct sigaction *action)
{
    struct kernel_action made = {.handler = action->sa_handler,
                                 .flags = (unsigned)action->sa_flags,
                                 .restorer = action->sa_restorer};
    memcpy(&made.mask, &action->sa_mask, sizeof made.mask);
    return made;
}

long signals_change_action(long number, long signal, const struct kernel_action *action,
                           struct kernel_action *before, size_t mask_bytes)
{
    if (!agent.armed || mask_bytes != sizeof action->mask ||
        (signal != SIGTRAP && signal != CLOCK_SIGNAL))
        return syscall_next(number, signal, action, before, mask_bytes);
    struct sigaction old, wanted;
    if (action)
        wanted = as_library(action);
    const int result = sigaction((int)signal, action ? &wanted : NULL, &old);
    if (!result && before)
        *before = as_kernel(&old);
    return result;
}
