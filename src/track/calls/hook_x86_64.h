// SPDX-License-Identifier: MIT
// clang-format off
// For the hooks that are written in assembly: what they share.

// A register that is put away, and brought back, with the unwind table kept right.
    .macro SAVE register
    pushq \register
    .cfi_adjust_cfa_offset 8
    .endm

    .macro RESTORE register
    popq \register
    .cfi_adjust_cfa_offset -8
    .endm

// A frame for C, behind the registers that the hook has put away already: the others that a call
// may change, and rbp, which is the frame's pointer.
    .macro BEGIN_FRAME
    SAVE %r8
    SAVE %r9
    SAVE %r10
    SAVE %r11
    SAVE %rbp
    .cfi_rel_offset rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    .endm

    .macro END_FRAME
    movq %rbp, %rsp
    .cfi_def_cfa_register rsp
    RESTORE %rbp
    .cfi_restore rbp
    RESTORE %r11
    RESTORE %r10
    RESTORE %r9
    RESTORE %r8
    .endm

// Behind BEGIN_FRAME: the stack pointer goes where the hook has room, and is aligned for a call.
// Goes to NONE if there is none. CURRENT is the thread's own, with a struct hook_stack at STACK:
// hook_stack.h. Makes rdi the thread's own. Changes all registers.
    .macro MAKE_ROOM current, stack, none
    .hidden hook_stack_take
    movq \current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    andq $-16, %rsp
    movq %rsp, %rax
    subq \stack(%rdi), %rax
    cmpq \stack+8(%rdi), %rax
    jb 95f
    movq %rsp, %rsi
    addq $\stack, %rdi
    call hook_stack_take
    testq %rax, %rax
    jz \none
    movq %rax, %rsp
    movq \current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
95:
    .endm

// Back to the stack that the hook has begun on.
    .macro LEAVE_ROOM current, stack
    .hidden hook_stack_leave
    movq %rbp, %rsp
    movq \current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    andq $-16, %rsp
    movq %rsp, %rax
    subq \stack(%rdi), %rax
    cmpq \stack+8(%rdi), %rax
    jb 96f
    movq %rsp, %rsi
    addq $\stack, %rdi
    call hook_stack_leave
96:
    .endm

// All vector state, below the stack pointer, which is aligned for a call. Changes rax, rcx, rdx and
// rdi.
    .macro SAVE_VECTORS
    subq vector_bytes(%rip), %rsp
    andq $-64, %rsp
    xorl %eax, %eax
    movl $8, %ecx
    leaq 512(%rsp), %rdi            // the header of the area must be zero
    rep stosq
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    testl %eax, %eax
    jz 91f
    xsave (%rsp)
    jmp 92f
91: fxsave (%rsp)
92:
    .endm

    .macro RESTORE_VECTORS
    movl vector_mask(%rip), %eax
    xorl %edx, %edx
    testl %eax, %eax
    jz 93f
    xrstor (%rsp)
    jmp 94f
93: fxrstor (%rsp)
94:
    .endm

// Calls FUNCTION(the thread's own, the slot, where the hook returns to, the frame pointer) with all
// vector state saved: what it calls may use any, and the function's arguments may be in any. The
// hook's frame: rbp points to the saved rbp, ten more words above are registers and the hook's
// return address, then comes the slot. ABOVE: both lie so much higher.
    .macro CALL_WITH_VECTORS_SAVED function, current, above=0
    SAVE_VECTORS
    movq \current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    leaq 88+\above(%rbp), %rsi
    movq 80+\above(%rbp), %rdx
    movq (%rbp), %rcx
    call \function
    RESTORE_VECTORS
    .endm

    .hidden vector_bytes, vector_mask
