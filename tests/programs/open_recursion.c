// SPDX-License-Identifier: MIT
// A function that may silently go to code that cannot be decoded (so it is open) calls itself, and
// then work that takes CPU time and goes on meeting new functions for a while.

#include "common.h"

void open_recursion(int depth);
void open_work(void);

// `nowhere` is never reached. Its bytes are no instructions.
__asm__(".text\n"
        ".globl open_recursion\n"
        ".type open_recursion, @function\n"
        "open_recursion:\n"
        "    .cfi_startproc\n"
        "    testl %edi, %edi\n"
        "    js nowhere\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    testl %edi, %edi\n"
        "    je 1f\n"
        "    decl %edi\n"
        "    call open_recursion\n"
        "    jmp 2f\n"
        "1:  call open_work\n"
        "2:  addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size open_recursion, . - open_recursion\n"
        ".type nowhere, @function\n"
        "nowhere:\n"
        "    .cfi_startproc\n"
        "    .byte 0x06, 0x06, 0x06, 0x06\n"
        "    .cfi_endproc\n"
        ".size nowhere, . - nowhere\n");

static volatile uint64_t sink;

// Three levels of leaf functions, and one above them.
NOIPA void open_first(uint64_t seed)
{
    sink += burn(seed, 1);
    NO_TAIL_CALL();
}

NOIPA void open_second(uint64_t seed)
{
    open_first(seed);
    NO_TAIL_CALL();
}

NOIPA void open_third(uint64_t seed)
{
    open_second(seed);
    NO_TAIL_CALL();
}

NOIPA void open_fourth(uint64_t seed)
{
    open_third(seed);
    NO_TAIL_CALL();
}

NOIPA void open_work(void)
{
    for (uint64_t i = 0; i < 300000; i++)
        open_fourth(i);
}

int main(void)
{
    open_recursion(3);
    return sink == 0;
}
