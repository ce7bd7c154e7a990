// SPDX-License-Identifier: MIT
// Two functions of an assembler that share a body: the first loads what the second takes as its
// argument, and ends where the second begins, without a jump. libc's strcasecmp() and
// strcasecmp_l() are such.

#include "common.h"

uint64_t by_default(void);
uint64_t by_argument(uint64_t rounds);

__asm__(".text\n"
        ".p2align 4\n"
        ".globl by_default\n"
        ".type by_default, @function\n"
        "by_default:\n"
        ".cfi_startproc\n"
        "mov $20000, %edi\n"
        ".p2align 4\n"
        ".cfi_endproc\n"
        ".size by_default, . - by_default\n"
        ".globl by_argument\n"
        ".type by_argument, @function\n"
        "by_argument:\n"
        ".cfi_startproc\n"
        "xor %eax, %eax\n"
        "1: lea 1(%rax,%rax,2), %rax\n"
        "sub $1, %rdi\n"
        "jne 1b\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size by_argument, . - by_argument\n");

// Through variables, so that both are functions that calls are known to lead to.
static uint64_t (*volatile without)(void) = by_default;
static uint64_t (*volatile with)(uint64_t) = by_argument;

NOIPA uint64_t both(void)
{
    uint64_t sum = without();
    sum += with(15000);
    return sum;
}

int main(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < 25000; i++)
        sum += both();
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
