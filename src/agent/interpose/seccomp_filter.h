// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_SECCOMP_FILTER_H
#define CAIRN_AGENT_INTERPOSE_SECCOMP_FILTER_H

// The effect on the agent of a filter of system calls (seccomp) that the program is about to
// install: the agent lives under the same filter. Nothing is tried out, since that might be the
// end; the filter is run, as the kernel would run it, for the calls that the agent makes.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

// Features that the agent must give up.
enum {
    FILTER_LEAVE = 1,       // even a sample would be the end of the program, or of what it knows
    FILTER_NO_CLOCKS = 2,   // threads that begin cannot be sampled
    FILTER_NO_ADVICE = 4,   // pages cannot be made beforehand
    FILTER_NO_GOODBYE = 8,  // nothing can be asked at the end
    FILTER_NO_STACKS = 16,  // threads that begin have no stack of their own for samples
    FILTER_NO_PENDING = 32, // pending signals are not known
};

// The filter's answer to a call: SECCOMP_RET_*. One that is damaged says what the worst would.
uint32_t seccomp_filter_action(const struct sock_filter *program, unsigned count,
                               const struct seccomp_data *call);

// The sum of FILTER_*. `rewrites`: call sites are rewritten while the program runs.
unsigned seccomp_filter_forbids(const struct sock_filter *program, unsigned count, bool rewrites);

#endif
