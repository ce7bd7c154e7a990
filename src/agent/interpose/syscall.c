// SPDX-License-Identifier: MIT
// Calls by syscall() that the agent must know of: see syscall_x86_64.S.

#include "agent/interpose/syscall.h"
#include "agent/interpose/limits.h"
#include "agent/interpose/signals.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "base/system/signal_mask.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__typeof__(&syscall_raw) syscall_next = syscall_raw;

// Early: before that, the program's calls do not come here.
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

static long change_action(long signal, const struct kernel_action *action,
                          struct kernel_action *before, size_t mask_bytes)
{
    const bool watched =
        signal == SIGTRAP || signal == CLOCK_SIGNAL || (action && action->flags & SA_ONSTACK);
    struct sigaction old, wanted;
    if (!agent.armed || mask_bytes != sizeof action->mask || !watched) {
        const long result = syscall_next(SYS_rt_sigaction, signal, action, before, mask_bytes);
        if (!result && before && signals_wraps(before->handler)) {
            old = as_library(before);
            signals_unwrap((int)signal, &old);
            *before = as_kernel(&old);
        }
        return result;
    }
    if (action)
        wanted = as_library(action);
    const int result = sigaction((int)signal, action ? &wanted : NULL, &old);
    if (!result && before)
        *before = as_kernel(&old);
    return result;
}

static long change_mask(long how, const uint64_t *set, uint64_t *before, size_t mask_bytes)
{
    const bool changes = how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK;
    // The kernel refuses memory that cannot be read: programs test addresses in this way.
    if (!changes || mask_bytes != sizeof *set ||
        (set && signal_mask_change(~0, set, NULL) != -EINVAL))
        return syscall_next(SYS_rt_sigprocmask, how, set, before, mask_bytes);
    return signals_change_mask((int)how, set, before);
}

long syscall_watched(long number, unsigned long first, unsigned long second, unsigned long third,
                     unsigned long fourth, unsigned long fifth)
{
    if (number == SYS_rt_sigaction)
        return change_action((long)first, (const struct kernel_action *)second,
                             (struct kernel_action *)third, fourth);
    if (number == SYS_rt_sigprocmask)
        return change_mask((long)first, (const uint64_t *)second, (uint64_t *)third, fourth);
    if (number == SYS_mlockall)
        return mlockall((int)first);
    if (number == SYS_getrlimit || number == SYS_setrlimit || number == SYS_prlimit64)
        return limits_call(number, (const unsigned long[]){first, second, third, fourth, fifth});
    if (number == SYS_sigaltstack)
        return sigaltstack((const stack_t *)first, (stack_t *)second);
    return seccomp_call(number, (const unsigned long[]){first, second, third, fourth, fifth});
}
