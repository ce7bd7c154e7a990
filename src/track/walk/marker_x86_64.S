// SPDX-License-Identifier: MIT
// The marker's stub: a marked frame returns into it. See marker.h for the idea.

    .hidden marker_code, marker_code_end, marker_stub, marker_table, marker_returned
    .hidden marker_personality, marker_resume, marker_resume_target
    .globl marker_code, marker_code_end, marker_stub, marker_resume

// The return address of the frame described here is a value computed by a DWARF expression, which starts with the
// CFA on its stack. Register 16 is the word in the marked slot. If it points into the 256 aligned bytes of this code
// (told by the signature at their start), hash the CFA as marker_hash() does, and read the first word of the entry of
// marker_table, which the cell at the start leads to; else an exception has put the true address back already.
//   v = r16; base = v & -256; [base + 8] == signature ? [base + [base] + hash(CFA) * 32] : v
#define TRUTH \
    0x80, 0x00, 0x0b, 0x00, 0xff, 0x1a, 0x12, 0x38, 0x22, 0x06, \
    0x0e, 0x63, 0x61, 0x69, 0x72, 0x6e, 0x90, 0x90, 0xcc, 0x29, 0x28, 5, 0x00, \
    0x80, 0x00, 0x2f, 25, 0x00, \
    0x16, 0x12, 0x34, 0x25, 0x16, 0x3c, 0x25, 0x0a, 0x3b, 0x9e, 0x1e, 0x22, 0x0a, 0xff, 0x3f, 0x1a, 0x35, 0x24, \
    0x16, 0x12, 0x94, 0x04, 0x22, 0x22, 0x06

    .text
    .p2align 8
    .type marker_code, @function
marker_code:
    .cfi_startproc
    .cfi_personality 0x1b, marker_personality
    .cfi_def_cfa rsp, 0
    .cfi_escape 0x16, 16, 53, TRUTH
    .long marker_table - marker_code
    .long 0
    .byte 0x63, 0x61, 0x69, 0x72, 0x6e, 0x90, 0x90, 0xcc // the signature
    nop // unwinders look up the byte before a return address
    .p2align 4
marker_stub:
    // rsp is what it was before the call that has just returned. The word below takes the true address, 0 until
    // it is known. From here on the expression prefers that word.
    pushq $0
    .cfi_escape 0x16, 16, 62, 0x12, 0x38, 0x1c, 0x06, 0x12, 0x28, 54, 0x00, 0x13, TRUTH
    .cfi_def_cfa_offset 8
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    // Any register may carry a result: local calls of optimised code keep values where the ABI would not.
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    andq $-16, %rsp
    leaq 16(%rbp), %rdi
    call marker_returned
    leaq -72(%rbp), %rsp
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    popq %rbp
    .cfi_restore rbp
    .cfi_def_cfa rsp, 8
    // A jump, not a return: the processor's return predictor has already forgotten this call.
    leaq 8(%rsp), %rsp
    .cfi_def_cfa_offset 0
    jmp *-8(%rsp)
    .cfi_endproc
    .size marker_code, . - marker_code
marker_code_end:

// The second phase of an exception continues here after it met a marker just below the frame of the handler: rax is the
// exception, rdx the true return address, rsp that of the handler's frame. Looks like a call of _Unwind_Resume there;
// which one (a program may bring its own unwinder) is in marker_resume_target.
    .p2align 4
    .type marker_resume, @function
marker_resume:
    .cfi_startproc
    .cfi_undefined rip
    movq %rax, %rdi
    pushq %rdx
    jmp *marker_resume_target(%rip)
    .cfi_endproc
    .size marker_resume, . - marker_resume

    .section .note.GNU-stack, "", @progbits
