// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_NOW_H
#define CAIRN_BASE_NOW_H

// The time as the kernel has it, by the function that it maps into every process (vDSO). libc's
// clock_gettime() may be interposed: libraries that fake the time (libfaketime) would answer, and
// they are not initialised when the agent begins.

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// 0, or not. Signal-safe. Set once, when the agent is loaded; before that, and where there is no
// such function, it is a system call.
extern
    __attribute__((visibility("hidden"))) int (*now_read)(clockid_t clock, struct timespec *time);

// In nanoseconds; 0 if there is no such clock. Signal-safe.
static inline uint64_t now_ns(clockid_t clock)
{
    struct timespec time;
    if (now_read(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// From here on it is a system call: the other way reads the processor's counter, which the program
// has forbidden itself. Signal-safe.
void now_without_counter(void);
extern __attribute__((visibility("hidden"))) bool now_has_no_counter;

// The number of this process: libc's getpid() may be interposed, too, and need not know of a
// process that was made without libc. Signal-safe.
static inline pid_t now_process(void)
{
    return (pid_t)syscall(SYS_getpid);
}

#endif
