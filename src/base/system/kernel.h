// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_KERNEL_H
#define CAIRN_BASE_SYSTEM_KERNEL_H

// A system call without libc: for code that may touch no vector register, as hooks of calls run
// between the program's instructions. Signal-safe, and leaves errno alone.

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// Its result, or -errno.
static inline long kernel_call(long number, long first, long second, long third, long fourth)
{
#if defined(__x86_64__)
    long result = number;
    register long r10 __asm__("r10") = fourth;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(first), "S"(second), "d"(third), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    const int saved = errno;
    long result = syscall(number, first, second, third, fourth);
    if (result == -1)
        result = -errno;
    errno = saved;
    return result;
#endif
}

#endif
