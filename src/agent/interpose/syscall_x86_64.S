// SPDX-License-Identifier: MIT
// syscall(): programs that bring handlers of their own in order by system calls (Chromium resets all of them in its
// children) would take ours away without a word, and the next tick would kill them; and most confine themselves by one
// (seccomp.c), some lock their memory (mlock.c), limit it (limits.c), set an alternate stack (signal_stack.c), or block
// signals (signals.c). All others go on to the next syscall() in line.

#include <asm/unistd_64.h>

    .globl syscall
    .type syscall, @function
    .globl syscall_raw
    .type syscall_raw, @function
    .hidden syscall_raw, syscall_next, syscall_watched

    .text
    .p2align 4
syscall:
    .cfi_startproc
    endbr64
    cmpq $__NR_rt_sigaction, %rdi
    je syscall_watched
    cmpq $__NR_rt_sigprocmask, %rdi
    je syscall_watched
    cmpq $__NR_prctl, %rdi
    je syscall_watched
    cmpq $__NR_seccomp, %rdi
    je syscall_watched
    cmpq $__NR_mlockall, %rdi
    je syscall_watched
    cmpq $__NR_getrlimit, %rdi
    je syscall_watched
    cmpq $__NR_setrlimit, %rdi
    je syscall_watched
    cmpq $__NR_prlimit64, %rdi
    je syscall_watched
    cmpq $__NR_sigaltstack, %rdi
    je syscall_watched
    cmpq $__NR_io_uring_enter, %rdi
    je syscall_io_uring_enter
    movq syscall_next(%rip), %r11
    notrack jmp *%r11
    .cfi_endproc
    .size syscall, . - syscall

// A tick makes this one fail (interrupted_call.c), and repeating it needs the number from the code.
    .p2align 4
    .type syscall_io_uring_enter, @function
syscall_io_uring_enter:
    .cfi_startproc
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    movl $__NR_io_uring_enter, %eax
    syscall
    jmp syscall_result
    .cfi_endproc
    .size syscall_io_uring_enter, . - syscall_io_uring_enter

// As libc has it, and not interposed.
    .p2align 4
syscall_raw:
    .cfi_startproc
    endbr64
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    syscall
syscall_result:
    cmpq $-4095, %rax
    jae 1f
    ret
1:  negl %eax
    pushq %rax
    .cfi_adjust_cfa_offset 8
    call __errno_location@PLT
    popq %rcx
    .cfi_adjust_cfa_offset -8
    movl %ecx, (%rax)
    movq $-1, %rax
    ret
    .cfi_endproc
    .size syscall_raw, . - syscall_raw

    .section .note.GNU-stack, "", @progbits
