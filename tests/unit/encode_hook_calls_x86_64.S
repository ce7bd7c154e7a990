// SPDX-License-Identifier: MIT
// What stubs do around the hooks: see test_encode_hooks.c.

#define SITES 8

    .text

// Direct sites: the return address of the hook's call tells which one it is.
    .altmacro
    .macro DIRECT number
    .p2align 4
direct_call_\number:
    call encode_push_direct
direct_stub_\number:
    ret
    .endm

    .macro NAMED name, number
    .quad \name\()_\number
    .endm

    .set number, 0
    .rept SITES
    DIRECT %number
    .set number, number + 1
    .endr

    .globl hook_indirect, hook_indirect_stub
hook_indirect:
    pushq %rdi
    call encode_push_indirect
hook_indirect_stub:
    addq $8, %rsp
    ret

    .globl hook_after
hook_after:
    call encode_after
    ret

    .globl hook_table
hook_table:
    pushq %rax
    movq %rdi, %rax
    call encode_before_table
    popq %rax
    ret

    .globl hook_after_table
hook_after_table:
    pushq %rax
    movq %rdi, %rax
    call encode_after_table
    popq %rax
    ret

// hook_registers(function, argument, values): calls it with the values in all registers that a function may change, and
// stores what is in them then.
    .globl hook_registers
hook_registers:
    pushq %rbx
    pushq %rbp
    movq %rdi, %rbx
    movq %rdx, %rbp
    movq %rsi, %rdi
    movq 0(%rbp), %rax
    movq 8(%rbp), %rcx
    movq 16(%rbp), %rdx
    movq 24(%rbp), %rsi
    movq 32(%rbp), %r8
    movq 40(%rbp), %r9
    movq 48(%rbp), %r10
    movq 56(%rbp), %r11
    call *%rbx
    movq %rax, 0(%rbp)
    movq %rcx, 8(%rbp)
    movq %rdx, 16(%rbp)
    movq %rsi, 24(%rbp)
    movq %r8, 32(%rbp)
    movq %r9, 40(%rbp)
    movq %r10, 48(%rbp)
    movq %r11, 56(%rbp)
    movq %rdi, 64(%rbp)
    popq %rbp
    popq %rbx
    ret

    .data
    .p2align 3
    .globl hook_direct_calls, hook_direct_stubs
hook_direct_calls:
    .set number, 0
    .rept SITES
    NAMED direct_call, %number
    .set number, number + 1
    .endr
hook_direct_stubs:
    .set number, 0
    .rept SITES
    NAMED direct_stub, %number
    .set number, number + 1
    .endr

    .section .note.GNU-stack, "", @progbits
