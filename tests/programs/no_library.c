// SPDX-License-Identifier: MIT
// As a program in Go without cgo: the loader starts it, but no library is linked to it, and its
// thread pointer is its own.

#include <asm/prctl.h>
#include <sys/syscall.h>

static long call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}

static long storage[64];

__attribute__((noreturn, used)) static void begin(void)
{
    static const char said[] = "done\n";
    call(SYS_arch_prctl, ARCH_SET_FS, (long)(storage + 32), 0);
    for (volatile long i = 0; i < 50000000; i++) {
    }
    call(SYS_write, 1, (long)said, sizeof said - 1);
    call(SYS_exit_group, 0, 0, 0);
    __builtin_unreachable();
}

// The stack is aligned as the kernel leaves it, which is not as a called function finds it.
__asm__(".globl _start\n_start:\n    call begin\n");
