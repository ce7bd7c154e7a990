// SPDX-License-Identifier: MIT
// The hook at the entry of a followed function. See calls.h; the offsets are those of struct calls_thread.

#include "track/hook_x86_64.h"

#define GENERATION 0
#define LATEST 8
#define AMOUNT 16
#define OWN_SHIFT 24
#define SITE 64
#define BACK 72
#define PLACE 80
#define CELL 88
#define CALLER 96
#define CHILD 104
#define KEY 112
#define DISTANCE 120
#define ALSO 124
#define SPREAD 0x9e3779b1
#define TABLE_MASK (4095 << 6)

    .hidden calls_enter, calls_vector_start, calls_enter_known, calls_enter_unknown
    .hidden calls_current, calls_generation
    .globl calls_enter, calls_vector_start

    .text
// On entry: (%rsp) is where we return to, in the function; 8(%rsp) the function's own return address, and its place
// is the slot. No register may change, nor any flag matters. Five registers do for a call that is in the table
// (context.h). What is compared is read from one line of memory, and hardly anything waits for a result: the processor
// goes on with the function meanwhile.
    .p2align 6
    .type calls_enter, @function
calls_enter:
    .cfi_startproc
    SAVE %rdi
    movq calls_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    testq %rdi, %rdi
    jz 9f
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    SAVE %rax
    leaq 48(%rsp), %rdx             // the slot
    movq 48(%rsp), %rcx             // the call site
    movq 40(%rsp), %rax             // the function
    imull $SPREAD, %edx, %esi
    shrl $16, %esi
    addl %ecx, %esi
    leal (%rsi, %rax, 4), %esi
    shll $6, %esi
    andl $TABLE_MASK, %esi
    addq %rdi, %rsi
    cmpq %rcx, SITE(%rsi)
    jne 5f
    cmpq %rax, BACK(%rsi)
    jne 5f
    cmpq %rdx, PLACE(%rsi)
    jne 3f
0:  movl calls_generation(%rip), %ecx
    cmpl %ecx, GENERATION(%rdi)
    jne 5f                          // cells may be wrong, or we are inside of the tree
    movq CELL(%rsi), %rcx
    movslq DISTANCE(%rsi), %rdx
    movq (%rcx, %rdx), %rdx         // the caller's node
    cmpq %rdx, CALLER(%rsi)
    jne 4f
1:  movq CHILD(%rsi), %rdx
    movq KEY(%rsi), %rax            // nodes of a tree that forgets become others
    cmpq %rax, (%rdx)
    jne 5f
    movq AMOUNT(%rdi), %rax
    movq %rdx, (%rcx)               // first: a handler that comes in between finds us in our place
    movq %rcx, LATEST(%rdi)
    addq %rax, 16(%rdx)
    .cfi_remember_state
2:  RESTORE %rax
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
9:  RESTORE %rdi
    ret
    .cfi_restore_state

    // By the frame pointer, which is still the caller's; or over a bridge that still stands.
    .p2align 4
3:  leaq 1(%rdx), %rcx
    cmpq %rcx, PLACE(%rsi)
    jne 33f
    cmpl %ebp, ALSO(%rsi)
    je 0b
    jmp 5f
33: movq OWN_SHIFT(%rdi), %rcx
    addq %rdx, %rcx
    cmpq %rcx, CELL(%rsi)
    jne 5f
    movl ALSO(%rsi), %ecx
    movq (%rdx, %rcx), %rcx
    cmpq %rcx, PLACE(%rsi)
    je 0b
    jmp 5f

    // The same call, but the caller was called by another: it has a place of its own.
    .p2align 4
4:  imull $SPREAD, %edx, %eax
    shrl $8, %eax
    andl $TABLE_MASK, %eax
    subq %rdi, %rsi
    xorq %rax, %rsi
    addq %rdi, %rsi
    cmpq %rdx, CALLER(%rsi)
    jne 5f
    cmpq %rcx, CELL(%rsi)
    jne 5f
    movq 48(%rsp), %rax
    cmpq %rax, SITE(%rsi)
    jne 5f
    movq 40(%rsp), %rax
    cmpq %rax, BACK(%rsi)
    je 1b

    // A call that is not in the table, or a node that is new. Our own code: no vector register is touched.
    .p2align 4
5:  leaq 48(%rsp), %rsi
    SAVE %r8
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
