// SPDX-License-Identifier: MIT
// Functions for test_leaf_functions.c, in a library: code of the patcher itself is never looked at.
#include "leaf_forms.h"

// Their code as a compiler would write it, but sure not to be inlined or changed.
#define FUNCTION(name, body)                                                                       \
    extern void name(void) __attribute__((visibility("hidden")));                                  \
    __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name       \
            ":\n.cfi_startproc\n" body "\n.cfi_endproc\n.size " #name ", . - " #name "\n")

FUNCTION(leaf, "lea 1(%rdi), %rax; ret");
FUNCTION(one_up, "call leaf; ret");
FUNCTION(two_up, "call leaf; call one_up; ret");
FUNCTION(three_up, "call two_up; ret");
FUNCTION(four_up, "call three_up; ret");
FUNCTION(jumps, "test %edi, %edi; je leaf; jmp one_up");
FUNCTION(shared, "lea 2(%rdi), %rax; ret");
FUNCTION(jumps_from_high, "call two_up; jmp shared");
FUNCTION(above_shared, "call shared; ret");
FUNCTION(system_call, "mov $39, %eax; syscall; ret");
FUNCTION(itself, "call itself; ret");
FUNCTION(there, "call and_back; ret");
FUNCTION(and_back, "call there; ret");
FUNCTION(through_pointer, "call *%rdi; ret");
FUNCTION(jump_through_pointer, "jmp *%rdi");
FUNCTION(above_pointer, "call through_pointer; ret");
FUNCTION(jump_to_pointer, "call leaf; jmp through_pointer");

// The same without an unwind table.
#define BARE(name, body)                                                                           \
    extern void name(void) __attribute__((visibility("hidden")));                                  \
    __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name       \
            ":\n" body "\n.size " #name ", . - " #name "\n")

BARE(bare, "1: dec %edi; jne 1b; jmp 2f; .fill 3, 1, 0x06; 2: ret");
BARE(bare_above_bare, "push %rbx; test %edi, %edi; je 1f; call bare; 1: pop %rbx; ret");
BARE(bare_above_leaf, "call leaf; ret");
BARE(bare_through_pointer, "test %edi, %edi; je 1f; ret; 1: jmp *%rdi");
BARE(bare_falls, "nop");
FUNCTION(behind_bare, "ret");

#define FORM(name) .name = name
const struct leaf_forms leaf_forms = {
    FORM(leaf),          FORM(one_up),          FORM(two_up),          FORM(three_up),
    FORM(four_up),       FORM(jumps),           FORM(system_call),     FORM(itself),
    FORM(there),         FORM(and_back),        FORM(through_pointer), FORM(jump_through_pointer),
    FORM(above_pointer), FORM(jump_to_pointer), FORM(jumps_from_high), FORM(above_shared),
    FORM(bare),          FORM(bare_above_bare), FORM(bare_above_leaf), FORM(bare_through_pointer),
    FORM(bare_falls),
};
