// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_STOPPED_H
#define CAIRN_INJECT_STOPPED_H

// A thread of another process that is stopped for a moment, and led elsewhere.
//
// The tool may be killed at any time, and the kernel then lets the thread go on with the registers
// that it has. So whenever it is led elsewhere, it finds its way back by itself.

#include "inject/injected.h"
#include "inject/injection_target.h"
#include <sys/user.h>

struct stopped {
    const struct target *target;
    pid_t tid;
    struct user_regs_struct registers; // as if it were not stopped: a call goes on from them
    uint64_t mask;                     // of signals
    bool in_call;                      // it waits in a system call of its own
    long number;                       // that
};

// 0, or -errno: it is gone, or may not be stopped; -EBUSY: it is stopped for another reason;
// -EAGAIN: it did not stop in time.
int stopped_begin(struct stopped *stopped, const struct target *target, pid_t tid);

// Lets it go on as it was.
void stopped_end(struct stopped *stopped);

// A thread that did not stop in time, as it was where nothing interrupts it, may stop later. This
// lets such threads go on; it is called again and again as long as there are any.
void stopped_settle_late(void);

// All that it needs to go back to where it was.
void stopped_describe(const struct stopped *stopped, struct injected_return *back);

// Has it make a system call. Its result, or -errno.
long stopped_call(struct stopped *stopped, long number, const uint64_t arguments[6]);

// Lets it go on there, with all signals blocked.
bool stopped_lead(struct stopped *stopped, uint64_t pc, uint64_t sp);

#endif
