// SPDX-License-Identifier: MIT
// The short way of a push, without a call into C: of an edge that is in the table, on the thread's own stack. What is out of
// the ordinary takes the way of encode_x86_64.S, as if this had not been. The offsets are those of struct encode_state.

#include "track/hook_x86_64.h"

#define ID 0
#define DEPTH 8
#define STACK 16
#define LIMIT 32
#define ATTENTION 52
#define STACK_LOW 80
#define STACK_BYTES 88
#define COUNTDOWN 96
#define BASE 120
#define OWN 128
#define OWN_COUNT 136
#define ENTRY_EDGE 8
#define ENTRY_COUNT 12
#define ENTRY_BYTES 16

// Of struct encode.
#define WANTED 0

// Of the words of the table: see encode_hook.c.
#define TAG_SHIFT 24
#define EDGE_MASK 0xffffff
#define FLAG_REPEATS 1
#define FLAG_BEGINS 2
#define FLAG_BITS 2

    .hidden encode, encode_table, encode_state
    .hidden encode_push_direct, encode_push_indirect
    .hidden encode_before_direct, encode_before_indirect
    .globl encode_push_direct, encode_push_indirect
    .hidden encode_before_table, encode_table_otherwise
    .globl encode_before_table

// rdx becomes the hash of the stub's address and the target: mix() in encode_hook.c. Changes rcx.
    .macro MIX indirect
    .if \indirect
    movq 40(%rsp), %rdx
    movabsq $0xff51afd7ed558ccd, %rcx
    imulq %rcx, %rdx
    xorq 32(%rsp), %rdx
    .else
    movq 32(%rsp), %rdx
    .endif
    movabsq $0x9e3779b97f4a7c15, %rcx
    imulq %rcx, %rdx
    movq %rdx, %rcx
    shrq $29, %rcx
    xorq %rcx, %rdx
    .endm

// Writes the entry at rcx, of the id in rdx, and makes the number what the function called begins with. The top moves first:
// a signal's handler that came before it would push over the entry. 1 is where an entry begins, 2 where there is one.
    .macro PUSH_ENTRY state, edge, low
1:  incl %fs:DEPTH(\state)
    movq %rdx, (%rcx)
    movq \edge, ENTRY_EDGE(%rcx)    // and the count, 0
2:  movq %fs:BASE(\state), %rcx
    cmpl %fs:OWN_COUNT(\state), \low
    jae 4f
    movq %fs:OWN(\state), %rdx
    addq (%rdx,\edge,8), %rcx       // what the function called begins with
4:  movq %rcx, %fs:ID(\state)
    .endm

// It repeats: if the same is on top, that is counted.
    .macro COUNT_REPETITION state, low
    cmpl $0, %fs:DEPTH(\state)
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
    shrq $TAG_SHIFT, %rdx
    jne 9f                          // not in the table
    testb $FLAG_BEGINS, %sil
    jne 8f
7:  movl %fs:ATTENTION(%rax), %ecx
    orl encode+WANTED(%rip), %ecx
    jne 9f
    .if \indirect
    leaq 48(%rsp), %rcx             // the stack pointer at the site
    .else
    leaq 40(%rsp), %rcx
    .endif
    subq %fs:STACK_LOW(%rax), %rcx
    cmpq %fs:STACK_BYTES(%rax), %rcx
    jae 9f
    decl %fs:COUNTDOWN(%rax)
    js 9f
    movl %fs:DEPTH(%rax), %ecx
    cmpl %fs:LIMIT(%rax), %ecx
    jae 9f
    shlq $4, %rcx
    addq %fs:STACK(%rax), %rcx
    movq %fs:ID(%rax), %rdx
    andl $EDGE_MASK, %esi
    testb $FLAG_REPEATS, %sil
    jne 3f
    shrl $FLAG_BITS, %esi
    PUSH_ENTRY %rax, %rsi, %esi
    RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    RESTORE %rax
    ret
    .cfi_adjust_cfa_offset 32
3:  shrl $FLAG_BITS, %esi
    COUNT_REPETITION %rax, %esi
    // What it begins with is known here of edges that are older than the encoding.
8:  movl %esi, %ecx
    andl $EDGE_MASK, %ecx
    shrl $FLAG_BITS, %ecx
    cmpl %fs:OWN_COUNT(%rax), %ecx
    jb 7b
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

// The same with the word of a table in rax, of which the stub has saved the program's.
#define WORD_LONG 62
#define WORD_REPEATS 32
#define WORD_BEGINS 33

    .p2align 5
    .type encode_before_table, @function
encode_before_table:
    .cfi_startproc
    btq $WORD_LONG, %rax
    jc encode_table_otherwise
    SAVE %rcx
    SAVE %rdx
    SAVE %rsi
    movq encode_state@gottpoff(%rip), %rsi
    btq $WORD_BEGINS, %rax
    jc 8f
7:  decl %fs:COUNTDOWN(%rsi)
    js 9f
    movl %fs:DEPTH(%rsi), %ecx
    cmpl %fs:LIMIT(%rsi), %ecx
    jae 9f
    shlq $4, %rcx
    addq %fs:STACK(%rsi), %rcx
    movq %fs:ID(%rsi), %rdx
    btq $WORD_REPEATS, %rax
    movl %eax, %eax                 // the edge
    jc 3f
    PUSH_ENTRY %rsi, %rax, %eax
    RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    ret
    .cfi_adjust_cfa_offset 24
3:  COUNT_REPETITION %rsi, %eax
8:  cmpl %fs:OWN_COUNT(%rsi), %eax
    jb 7b
9:  RESTORE %rsi
    RESTORE %rdx
    RESTORE %rcx
    jmp encode_table_otherwise
    .cfi_endproc
    .size encode_before_table, . - encode_before_table

    .section .note.GNU-stack, "", @progbits
