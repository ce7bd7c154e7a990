// SPDX-License-Identifier: MIT
// The hook at the entry of a followed function. See calls.h; the offsets are those of struct calls_thread.

#define TOP 0
#define LOW 8
#define SPAN 16
#define BASE 24
#define GENERATION 32
#define AMOUNT 40
#define MEMOS 64
#define MEMO_MASK 1023

    .hidden calls_enter, calls_vector_start, calls_enter_known, calls_enter_unknown
    .hidden calls_current, calls_generation
    .hidden trigger_enter, trigger_fire, trigger_current
    .globl calls_enter, calls_vector_start, trigger_enter

    .text
// On entry: (%rsp) is where we return to, in the function; 8(%rsp) the function's own return address, and its place
// is the slot. No register may change, nor any flag matters. Six registers do for a call that stays in known
// contexts.
    .p2align 5
    .type calls_enter, @function
calls_enter:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    movq calls_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    testq %rdi, %rdi
    jz 9f
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    leaq 48(%rsp), %rsi             // the slot
    movq %rsi, %rax
    subq LOW(%rdi), %rax
    cmpq SPAN(%rdi), %rax
    jae 5f                          // another stack, or inside of the tree
    movq TOP(%rdi), %rcx
    movq (%rsi), %rax               // the call site
    movl %eax, %edx
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
2:  popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
9:  popq %rdi
    .cfi_adjust_cfa_offset -8
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
5:  pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    pushq %r10
    .cfi_adjust_cfa_offset 8
    pushq %r11
    .cfi_adjust_cfa_offset 8
    pushq %rbp
    .cfi_adjust_cfa_offset 8
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
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %r11
    .cfi_adjust_cfa_offset -8
    popq %r10
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    jmp 2b

    // What asks libc and the loader: all vector state is saved, arguments may be in any of it.
7:  .cfi_def_cfa rbp, 96
    .cfi_offset rbp, -96
    subq vector_bytes(%rip), %rsp
    andq $-64, %rsp
    xorl %eax, %eax
    movl $8, %ecx
    leaq 512(%rsp), %rdi            // the header of the area must be zero
    rep stosq
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    xsave (%rsp)
    movq calls_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    leaq 88(%rbp), %rsi
    movq 80(%rbp), %rdx
    movq (%rbp), %rcx
    call calls_enter_unknown
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    xrstor (%rsp)
    jmp 6b
    .cfi_endproc
    .size calls_enter, . - calls_enter

// The hook of the trigger: counts down, one counter for all functions or one for each, and takes a sample at nought.
// The offsets are those of struct trigger_thread.
    .p2align 5
    .type trigger_enter, @function
trigger_enter:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    movq trigger_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    testq %rdi, %rdi
    jz 9f
    cmpq $0, 8(%rdi)
    jne 3f
    decq (%rdi)
    jle 5f
9:  popq %rdi
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_adjust_cfa_offset 8
3:  pushq %rax
    .cfi_adjust_cfa_offset 8
    movl 16(%rsp), %eax             // the function, by where we return to in it
    shrl $4, %eax
    andl $4095, %eax
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    movl 16(%rdi, %rax, 4), %ecx
    incl %ecx
    cmpl 8(%rdi), %ecx
    jae 4f
    movl %ecx, 16(%rdi, %rax, 4)
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_adjust_cfa_offset 24
4:  movl $0, 16(%rdi, %rax, 4)
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
5:  pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    pushq %r10
    .cfi_adjust_cfa_offset 8
    pushq %r11
    .cfi_adjust_cfa_offset 8
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset rbp, -96
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    subq vector_bytes(%rip), %rsp
    andq $-64, %rsp
    xorl %eax, %eax
    movl $8, %ecx
    leaq 512(%rsp), %rdi
    rep stosq
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    xsave (%rsp)
    movq trigger_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    leaq 88(%rbp), %rsi
    movq 80(%rbp), %rdx
    movq (%rbp), %rcx
    call trigger_fire
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    xrstor (%rsp)
    movq %rbp, %rsp
    .cfi_def_cfa_register rsp
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %r11
    .cfi_adjust_cfa_offset -8
    popq %r10
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size trigger_enter, . - trigger_enter

// What there is to save on this processor: SSE, AVX and AVX-512 state, as far as the system uses it.
    .p2align 4
    .type calls_vector_start, @function
calls_vector_start:
    .cfi_startproc
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_offset rbx, -16
    xorl %ecx, %ecx
    xgetbv
    andl $0xe6, %eax
    movl %eax, vector_mask(%rip)
    movl $13, %eax
    xorl %ecx, %ecx
    cpuid
    movl %ebx, %eax
    movq %rax, vector_bytes(%rip)
    popq %rbx
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size calls_vector_start, . - calls_vector_start

    .local vector_mask, vector_bytes
    .comm vector_mask, 8, 8
    .comm vector_bytes, 8, 8

    .section .note.GNU-stack, "", @progbits
