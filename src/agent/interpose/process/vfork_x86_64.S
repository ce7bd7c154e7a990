// SPDX-License-Identifier: MIT
// vfork: the child runs on the stack, and in the memory, of the thread that waits for it. The child's calls that never
// returned have changed the number of the calling context: when the thread continues, its number cannot be trusted.

#include <asm/unistd_64.h>

    .globl vfork, __vfork
    .type vfork, @function
    .type __vfork, @function
    .hidden tracker_doubt

    .text
vfork:
__vfork:
    .cfi_startproc
    endbr64
    // The child's calls overwrite the return address; it is kept where the kernel keeps it for both.
    popq %rdi
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdi
    movl $__NR_vfork, %eax
    syscall
    testl %eax, %eax
    jz 2f
    js 3f
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rip, 0
    pushq %rax
    .cfi_adjust_cfa_offset 8
    call tracker_doubt
1:  popq %rax
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdi
2:  // Not by a return: what the child calls next would overwrite the shadow stack's word, too.
    xorl %esi, %esi
    rdsspq %rsi
    testq %rsi, %rsi
    jz 4f
    movl $1, %esi
    incsspq %rsi
4:  notrack jmp *%rdi
3:  pushq %rdi
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rip, 0
    pushq %rax
    .cfi_adjust_cfa_offset 8
    call __errno_location@PLT
    popq %rcx
    .cfi_adjust_cfa_offset -8
    negl %ecx
    movl %ecx, (%rax)
    pushq $-1
    .cfi_adjust_cfa_offset 8
    jmp 1b
    .cfi_endproc
    .size vfork, . - vfork
    .section .note.GNU-stack, "", @progbits
