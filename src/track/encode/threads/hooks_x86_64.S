// SPDX-License-Identifier: MIT
// The hooks of patched call sites. See encode.h; the offsets are in state_offsets.h.

#include "track/encode/threads/state_offsets.h"
#include "track/calls/hook_x86_64.h"

    .hidden encode_before_direct, encode_before_indirect, encode_after
    .hidden encode_before_known, encode_before_slow, encode_state
    .hidden encode_before_tail, encode_tail_known, encode_tail_slow
    .hidden encode_table_otherwise, encode_after_table, encode_table_known, encode_table_after
    .globl encode_table_otherwise, encode_after_table
    .globl encode_before_direct, encode_before_indirect, encode_before_tail, encode_after

// Before a call: all registers may hold arguments. (%rsp) is an address in the stub, which tells the site; of an
// indirect call, 8(%rsp) is the target. With a table, 8(%rsp) is the program's rax, and rax the word. The agent's code
// touches no vector register; the slow path may call libc.
    .macro BEFORE indirect, known, slow, table=0
    .cfi_startproc
    SAVE %rax
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    BEGIN_FRAME
    andq $-16, %rsp
    movq 80(%rbp), %rdi
    leaq 88(%rbp), %rdx             // the stack pointer at the site
    .if \indirect
    movq 88(%rbp), %rsi
    addq $8, %rdx
    .elseif \table
    movq %rax, %rsi
    addq $8, %rdx
    .else
    xorl %esi, %esi
    .endif
    call \known
    testb %al, %al
    jz 2f
    .cfi_remember_state
1:  END_FRAME
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    RESTORE %rax
    ret
    .cfi_restore_state
2:
    SAVE_VECTORS
    movq 80(%rbp), %rdi
    xorl %esi, %esi
    leaq 88(%rbp), %rdx             // the stack pointer at the site
    .if \indirect
    movq 88(%rbp), %rsi
    .endif
    .if \indirect + \table
    addq $8, %rdx
    .endif
    movq (%rbp), %rcx
    call \slow
    RESTORE_VECTORS
    jmp 1b
    .cfi_endproc
    .endm

    .text
    .p2align 4
    .type encode_before_direct, @function
encode_before_direct:
    BEFORE 0, encode_before_known, encode_before_slow
    .size encode_before_direct, . - encode_before_direct

    .p2align 4
    .type encode_before_indirect, @function
encode_before_indirect:
    BEFORE 1, encode_before_known, encode_before_slow
    .size encode_before_indirect, . - encode_before_indirect

    .p2align 4
    .type encode_table_otherwise, @function
encode_table_otherwise:
    BEFORE 0, encode_table_known, encode_before_slow, 1
    .size encode_table_otherwise, . - encode_table_otherwise

// Before a tail jump, which changes nothing: the function that it leads to is to be met.
    .p2align 4
    .type encode_before_tail, @function
encode_before_tail:
    BEFORE 1, encode_tail_known, encode_tail_slow
    .size encode_before_tail, . - encode_before_tail

// Behind a call: results are in registers of any kind. Takes the top entry off, in the order that a signal's handler may
// come between: read, move the top, store. The depth is stored, not counted down: a handler that jumps may have left
// another one, and below 0 there is no stack.
    .p2align 4
    .type encode_after, @function
encode_after:
    .cfi_startproc
    SAVE %rdi
    SAVE %rsi
    SAVE %rax
    movq encode_state@gottpoff(%rip), %rdi
    cmpl $0, %fs:STATE_OVER(%rdi)
    jne 3f
    movl %fs:STATE_DEPTH(%rdi), %esi
    subl $1, %esi
    jb 2f
    movl %esi, %eax
    shlq $ENTRY_SHIFT, %rax
    addq %fs:STATE_STACK(%rdi), %rax
    cmpl $0, ENTRY_COUNT(%rax)
    jne 4f
    movq (%rax), %rax
    movl %esi, %fs:STATE_DEPTH(%rdi)
1:  movq %rax, %fs:STATE_ID(%rdi)
2:  RESTORE %rax
    RESTORE %rsi
    RESTORE %rdi
    ret
    .cfi_adjust_cfa_offset 24
3:  decl %fs:STATE_OVER(%rdi)
    jmp 2b
4:  decl ENTRY_COUNT(%rax)
    movq (%rax), %rax
    jmp 1b
    .cfi_endproc
    .size encode_after, . - encode_after

// The same where a table says what is to be undone: rax is the word, which the stub has saved the program's for.
    .p2align 4
    .type encode_after_table, @function
encode_after_table:
    .cfi_startproc
    btq $WORD_BIT_LONG, %rax
    jnc encode_after
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    BEGIN_FRAME
    andq $-16, %rsp
    movq 72(%rbp), %rdi
    call encode_table_after
    END_FRAME
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    ret
    .cfi_endproc
    .size encode_after_table, . - encode_after_table

// encode_call_on(top, work, with)
    .p2align 4
    .hidden encode_call_on
    .globl encode_call_on
    .type encode_call_on, @function
encode_call_on:
    .cfi_startproc
    SAVE %rbp
    .cfi_offset rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    movq %rdi, %rsp
    movq %rdx, %rdi
    call *%rsi
    movq %rbp, %rsp
    .cfi_def_cfa_register rsp
    RESTORE %rbp
    .cfi_restore rbp
    ret
    .cfi_endproc
    .size encode_call_on, . - encode_call_on

    .section .note.GNU-stack, "", @progbits
