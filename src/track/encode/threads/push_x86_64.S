// SPDX-License-Identifier: MIT
// The fast path of a push, without a call into C: of an edge that is in the table, on the thread's own stack. All other
// pushes take the way of hooks_x86_64.S, as if this file did not exist. The offsets are in state_offsets.h.

#include "track/encode/threads/state_offsets.h"
#include "track/calls/hook_x86_64.h"

    .hidden encode, encode_table, encode_state
    .hidden encode_push_direct, encode_push_indirect
    .hidden encode_before_direct, encode_before_indirect
    .globl encode_push_direct, encode_push_indirect
    .hidden encode_before_table, encode_table_otherwise
    .globl encode_before_table

// rdx becomes the hash of the stub's address and the target: encode_table_hash(). Changes rcx.
    .macro MIX indirect
    .if \indirect
    movq 40(%rsp), %rdx
    movabsq $TABLE_TARGET_FACTOR, %rcx
    imulq %rcx, %rdx
    xorq 32(%rsp), %rdx
    .else
    movq 32(%rsp), %rdx
    .endif
    movabsq $TABLE_FACTOR, %rcx
    imulq %rcx, %rdx
    movq %rdx, %rcx
    shrq $TABLE_FOLD, %rcx
    xorq %rcx, %rdx
    .endm

// Writes the entry at rcx, of the id in rdx, and makes the number what the function called begins with. The top moves first:
// a signal's handler that came before it would push over the entry. 1 is where an entry begins, 2 where there is one.
    .macro PUSH_ENTRY state, edge
1:  incl %fs:STATE_DEPTH(\state)
    movq %rdx, (%rcx)
    movq \edge, ENTRY_EDGE(%rcx)    // and the count, 0
2:  movq %fs:STATE_WORDS(\state), %rdx
    movq %fs:STATE_BASE(\state), %rcx
    addq WORDS_FIRST(%rdx,\edge,8), %rcx  // what the function called begins with
    movq %rcx, %fs:STATE_ID(\state)
    .endm

// It repeats: if the same is on top, that is counted.
    .macro COUNT_REPETITION state, low
    cmpl $0, %fs:STATE_DEPTH(\state)
    je 1b
    cmpq %rdx, -ENTRY_BYTES(%rcx)
    jne 1b
    cmpl \low, ENTRY_EDGE-ENTRY_BYTES(%rcx)
    jne 1b
    incl ENTRY_COUNT-ENTRY_BYTES(%rcx)
    jmp 2b
    .endm

    .macro PUSH indirect, otherwise
    .cfi_startproc
    SAVE %rax
    SAVE %rcx
    SAVE %rdx
    SAVE %rsi
    MIX \indirect
    movzwl %dx, %ecx
    leaq encode_table(%rip), %rsi
    movq (%rsi,%rcx,8), %rsi
    movq encode_state@gottpoff(%rip), %rax
    xorq %rsi, %rdx
    shrq $TABLE_EDGE_BITS, %rdx
    jne 9f                          // not in the table
    cmpl $VALIDITY_STALE, %fs:STATE_VALIDITY(%rax)
    jae 9f
    cmpl $0, encode+ENCODE_WANTED(%rip)
    jne 9f
    .if \indirect
    leaq 48(%rsp), %rcx             // the stack pointer at the site
    .else
    leaq 40(%rsp), %rcx
    .endif
    subq %fs:STATE_STACK_LOW(%rax), %rcx
    cmpq %fs:STATE_STACK_BYTES(%rax), %rcx
    jae 9f
    decl %fs:STATE_COUNTDOWN(%rax)
    js 9f
    andl $((1 << TABLE_EDGE_BITS) - 1), %esi
    movq %fs:STATE_WORDS(%rax), %rdx
    movq (%rdx,%rsi,8), %rdx
    movl %fs:STATE_DEPTH(%rax), %ecx
    cmpl %fs:STATE_LIMIT(%rax), %ecx
    jae 9f
    shlq $ENTRY_SHIFT, %rcx
    addq %fs:STATE_STACK(%rax), %rcx
    testq %rdx, %rdx
    jns 5f                          // it has a number, but this stub pops
    btq $WORD_BIT_LONG, %rdx
    jc 9f
    btq $WORD_BIT_REPEATS, %rdx
    jc 3f
5:  movq %fs:STATE_ID(%rax), %rdx
    PUSH_ENTRY %rax, %rsi
    RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    RESTORE %rax
    ret
    .cfi_adjust_cfa_offset 32
3:  movq %fs:STATE_ID(%rax), %rdx
    COUNT_REPETITION %rax, %esi
9:  RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    RESTORE %rax
    jmp \otherwise
    .cfi_endproc
    .endm

    .text
    .p2align 5
    .type encode_push_direct, @function
encode_push_direct:
    PUSH 0, encode_before_direct
    .size encode_push_direct, . - encode_push_direct

    .p2align 5
    .type encode_push_indirect, @function
encode_push_indirect:
    PUSH 1, encode_before_indirect
    .size encode_push_indirect, . - encode_push_indirect

// The same with the word of the edge in rax, of which the stub has saved the program's.
    .p2align 5
    .type encode_before_table, @function
encode_before_table:
    .cfi_startproc
    btq $WORD_BIT_LONG, %rax
    jc encode_table_otherwise
    SAVE %rcx
    SAVE %rdx
    SAVE %rsi
    movq encode_state@gottpoff(%rip), %rsi
    decl %fs:STATE_COUNTDOWN(%rsi)
    js 9f
    movl %fs:STATE_DEPTH(%rsi), %ecx
    cmpl %fs:STATE_LIMIT(%rsi), %ecx
    jae 9f
    shlq $ENTRY_SHIFT, %rcx
    addq %fs:STATE_STACK(%rsi), %rcx
    movq %fs:STATE_ID(%rsi), %rdx
    btq $WORD_BIT_REPEATS, %rax
    movl %eax, %eax                 // the edge
    jc 3f
    PUSH_ENTRY %rsi, %rax
    RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    ret
    .cfi_adjust_cfa_offset 24
3:  COUNT_REPETITION %rsi, %eax
9:  RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    jmp encode_table_otherwise
    .cfi_endproc
    .size encode_before_table, . - encode_before_table

    .section .note.GNU-stack, "", @progbits
