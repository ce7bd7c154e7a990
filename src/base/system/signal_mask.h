// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_SIGNAL_MASK_H
#define CAIRN_BASE_SYSTEM_SIGNAL_MASK_H

// The mask of the calling thread, as the kernel has it, and not as the program believes it to be.
// Signal-safe, and touches no vector register.

#include "base/system/kernel.h"
#include <signal.h>
#include <stdint.h>

// As sigprocmask(); the sets begin with the 64 bits that the kernel reads. 0 or -errno.
static inline int signal_mask_change(int how, const void *set, void *before)
{
    return (int)kernel_call(SYS_rt_sigprocmask, how, (long)set, (long)before, sizeof(uint64_t));
}

// Holds back the signals of the program: all but those that samples need, and faults.
static inline void signal_mask_hold(uint64_t *before)
{
    const uint64_t held = ~(UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGSTKFLT - 1) |
                            UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1));
    signal_mask_change(SIG_BLOCK, &held, before);
}

static inline void signal_mask_release(const uint64_t *before)
{
    signal_mask_change(SIG_SETMASK, before, NULL);
}

#endif
