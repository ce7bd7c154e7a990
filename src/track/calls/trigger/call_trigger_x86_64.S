// SPDX-License-Identifier: MIT
#include "track/calls/hook_x86_64.h"

    .hidden trigger_enter, trigger_fire, trigger_current
    .globl trigger_enter

    .text
// The hook of the trigger: counts down, one counter for all functions or one for each, and takes a sample at nought.
// The offsets are those of struct trigger_thread.
    .p2align 5
    .type trigger_enter, @function
trigger_enter:
    .cfi_startproc
    SAVE %rdi
    movq trigger_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    testq %rdi, %rdi
    jz 9f
    cmpq $0, 8(%rdi)
    jne 3f
    decq (%rdi)
    jle 5f
9:  RESTORE %rdi
    ret
    .cfi_adjust_cfa_offset 8
3:  SAVE %rax
    movl 16(%rsp), %eax             // the function, by where we return to in it
    shrl $4, %eax
    andl $4095, %eax
    SAVE %rcx
    movl 48(%rdi, %rax, 4), %ecx
    incl %ecx
    cmpl 8(%rdi), %ecx
    jge 4f
    movl %ecx, 48(%rdi, %rax, 4)
    RESTORE %rcx
    RESTORE %rax
    RESTORE %rdi
    ret
    .cfi_adjust_cfa_offset 24
4:  RESTORE %rcx
    RESTORE %rax
5:  SAVE %rsi
    SAVE %rax
    SAVE %rcx
    SAVE %rdx
    BEGIN_FRAME
    MAKE_ROOM trigger_current, 16, 6f
    CALL_WITH_VECTORS_SAVED trigger_fire, trigger_current
    LEAVE_ROOM trigger_current, 16
6:    END_FRAME
    RESTORE %rdx
    RESTORE %rcx
    RESTORE %rax
    RESTORE %rsi
    RESTORE %rdi
    ret
    .cfi_endproc
    .size trigger_enter, . - trigger_enter

    .section .note.GNU-stack, "", @progbits
