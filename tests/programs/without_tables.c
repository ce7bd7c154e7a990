// SPDX-License-Identifier: MIT
// Assembly that no unwind table describes, as codecs have it: most of the time is spent there. One
// function leaves the stack as it is, the other one saves registers that belong to its caller.

#include "common.h"

uint64_t bare(uint64_t rounds);
uint64_t saving(uint64_t rounds);

__asm__(".text\n"
        ".p2align 4\n"
        ".globl bare\n"
        ".type bare, @function\n"
        "bare:\n"
        "xor %eax, %eax\n"
        "1: lea 1(%rax,%rax,2), %rax\n"
        "sub $1, %rdi\n"
        "jne 1b\n"
        "ret\n"
        ".size bare, . - bare\n"
        ".p2align 4\n"
        ".globl saving\n"
        ".type saving, @function\n"
        "saving:\n"
        "push %rbx\n"
        "push %rbp\n"
        "mov %rdi, %rbx\n"
        "xor %ebp, %ebp\n"
        "1: lea 1(%rbp,%rbp,2), %rbp\n"
        "sub $1, %rbx\n"
        "jne 1b\n"
        "mov %rbp, %rax\n"
        "pop %rbp\n"
        "pop %rbx\n"
        "ret\n"
        ".size saving, . - saving\n");

NOIPA uint64_t work(uint64_t rounds)
{
    uint64_t sum = bare(rounds);
    sum += saving(rounds);
    return sum;
}

NOIPA uint64_t short_way(void)
{
    uint64_t sum = work(5000);
    NO_TAIL_CALL();
    return sum;
}

NOIPA uint64_t long_way(void)
{
    uint64_t sum = work(15000);
    NO_TAIL_CALL();
    return sum;
}

int main(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < 12000; i++)
        sum += short_way() + long_way();
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
