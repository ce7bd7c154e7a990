// SPDX-License-Identifier: MIT
// The hook at the entry of a followed function. See calls.h; the offsets are those of struct calls_thread.

#include "track/hook_x86_64.h"

#define TOP 0
#define LOW 8
#define SPAN 16
#define BASE 24
#define GENERATION 32
#define AMOUNT 40
#define MEMOS 64
#define MEMO_MASK 4095

    .hidden calls_enter, calls_vector_start, calls_enter_known, calls_enter_unknown
    .hidden calls_current, calls_generation
    .globl calls_enter, calls_vector_start

    .text
// On entry: (%rsp) is where we return to, in the function; 8(%rsp) the function's own return address, and its place
// is the slot. No register may change, nor any flag matters. Six registers do for a call that stays in known
// contexts.
    .p2align 5
    .type calls_enter, @function
calls_enter:
    .cfi_startproc
    SAVE %rdi
    movq calls_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    testq %rdi, %rdi
    jz 9f
    SAVE %rsi
    SAVE %rax
    SAVE %rcx
    SAVE %rdx
    leaq 48(%rsp), %rsi             // the slot
    movq %rsi, %rax
    subq LOW(%rdi), %rax
    cmpq SPAN(%rdi), %rax
    jae 5f                          // another stack, or inside of the tree
    movq TOP(%rdi), %rcx
    movq (%rsi), %rax               // the call site
    movl 40(%rsp), %edx
    shrl $2, %edx
    addl %eax, %edx
    andl $MEMO_MASK, %edx
    shll $5, %edx
    cmpq %rax, MEMOS(%rdi, %rdx)
    jne 5f
    movq 40(%rsp), %rax             // the function
    cmpq %rax, MEMOS+8(%rdi, %rdx)
    jne 5f
    movl calls_generation(%rip), %eax
    cmpl %eax, GENERATION(%rdi)
    jne 5f
    leaq MEMOS(%rdi, %rdx), %rdx
    movslq 20(%rdx), %rax           // where the caller's slot must be
    cmpl $1, 24(%rdx)
    jne .Lby_frame_pointer
    addq %rsi, %rax
0:  movl 16(%rdx), %edx             // the edge
    cmpq %rax, (%rcx)
    jne 4f
1:  movq 8(%rcx), %rax
    movl 8(%rax), %eax              // the cursor's newest child
    testl %eax, %eax
    jz 5f
    shlq $3, %rax
    addq BASE(%rdi), %rax
    cmpl %edx, (%rax)
    jne 3f
8:  movq AMOUNT(%rdi), %rdx
    addq %rdx, 16(%rax)
    addq $16, %rcx
    // A signal's handler that calls may come in between and write above the old top: so the entry is written once
    // the new top stands.
    movq %rcx, TOP(%rdi)
    movq %rsi, (%rcx)
    movq %rax, 8(%rcx)
    .cfi_remember_state
2:  RESTORE %rdx
    RESTORE %rcx
    RESTORE %rax
    RESTORE %rsi
9:  RESTORE %rdi
    ret
    .cfi_restore_state

    // By the frame pointer, which is still the caller's.
    .p2align 4
.Lby_frame_pointer:
    cmpl $2, 24(%rdx)
    jne 5f
    addq %rbp, %rax
    jmp 0b

    // One of the next children. A node of many has a hash instead of a list, whose first word is no edge: that is the
    // long way's, and so is moving a child to the front.
    .p2align 4
3:  .rept 3
    cmpl $0, (%rax)
    je 5f
    movl 12(%rax), %eax
    testl %eax, %eax
    jz 5f
    shlq $3, %rax
    addq BASE(%rdi), %rax
    cmpl %edx, (%rax)
    je 8b
    .endr
    jmp 5f

    // Activations that have ended.
    .p2align 4
4:  ja 5f
    subq $16, %rcx
    cmpq %rax, (%rcx)
    je 1b
    jmp 4b

    // A node that is not the newest child, or new. Our own code: no vector register is touched.
    .p2align 4
5:  SAVE %r8
    SAVE %r9
    SAVE %r10
    SAVE %r11
    SAVE %rbp
    .cfi_offset rbp, -96
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    andq $-16, %rsp
    movq 80(%rbp), %rdx
    movq (%rbp), %rcx
    call calls_enter_known
    testb %al, %al
    jz 7f
6:  movq %rbp, %rsp
    .cfi_def_cfa_register rsp
    RESTORE %rbp
    .cfi_restore rbp
    RESTORE %r11
    RESTORE %r10
    RESTORE %r9
    RESTORE %r8
    jmp 2b

    // What asks libc and the loader: all vector state is saved, arguments may be in any of it.
7:  .cfi_def_cfa rbp, 96
    .cfi_offset rbp, -96
    CALL_WITH_VECTORS_SAVED calls_enter_unknown, calls_current
    jmp 6b
    .cfi_endproc
    .size calls_enter, . - calls_enter

// What there is to save on this processor: SSE, AVX and AVX-512 state, as far as the system uses it.
    .p2align 4
    .type calls_vector_start, @function
calls_vector_start:
    .cfi_startproc
    SAVE %rbx
    .cfi_offset rbx, -16
    movq $576, vector_bytes(%rip)   // what SSE takes, and the header
    movl $1, %eax
    cpuid
    btl $27, %ecx                   // the system has no more than that to save
    jnc 2f
    xorl %ecx, %ecx
    xgetbv
    andl $0xe6, %eax
    movl %eax, vector_mask(%rip)
    movl $2, %esi
1:  btl %esi, vector_mask(%rip)     // how far the area of each reaches
    jnc 3f
    movl $13, %eax
    movl %esi, %ecx
    cpuid
    addl %ebx, %eax
    cmpq vector_bytes(%rip), %rax
    jbe 3f
    movq %rax, vector_bytes(%rip)
3:  incl %esi
    cmpl $8, %esi
    jb 1b
2:  RESTORE %rbx
    ret
    .cfi_endproc
    .size calls_vector_start, . - calls_vector_start

    .globl vector_mask, vector_bytes
    .comm vector_mask, 8, 8
    .comm vector_bytes, 8, 8

    .section .note.GNU-stack, "", @progbits
