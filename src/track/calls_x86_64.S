// SPDX-License-Identifier: MIT
// The hook at the entry of a followed function. See calls.h; the offsets are those of struct calls_thread.

#include "track/hook_x86_64.h"

#define GENERATION 0
#define AMOUNT 8
#define OWN_SHIFT 16
#define BASE 24
#define SITE 64
#define PLACE 72
#define BACK 80
#define CHILD 84
#define EDGE 88
#define DISTANCE 92
#define RETURNS (64 + 16384 * 32)
#define ALSO (RETURNS + 8)
#define SPREAD 0x9e3779b1
#define TABLE_MASK (16383 << 5)
#define BESIDE 32

// Goes on at KNOWN if the context is of this slot (rdx), too, and its condition holds.
    .macro CHECK_CONDITION known
    movq PLACE(%rsi), %rcx
    subq %rdx, %rcx
    cmpq $2, %rcx
    ja 102f
    leaq (%rsi, %rdi), %rcx         // the condition: its table has half the width
    jne 101f
    shrq $1, %rcx
    movl ALSO(%rcx), %eax
    movq (%rdx, %rax), %rax
    cmpq %rax, RETURNS(%rcx)
    je \known
    jmp 102f
101:
    shrq $1, %rcx
    cmpl %ebp, ALSO(%rcx)
    je \known
102:
    .endm

// Goes on at KNOWN if the context is that of the call, and its child is one of the caller's (eax), and makes rcx the
// child and rdx the cell.
    .macro COMPARE_WITH_CALLER known, above
    movq 48+\above(%rsp), %rcx
    cmpq %rcx, SITE(%rsi)
    jne 103f
    movl 40+\above(%rsp), %ecx
    cmpl %ecx, BACK(%rsi)
    jne 103f
    leaq 48+\above(%rsp), %rdx
    movq PLACE(%rsi), %rcx
    xorq %rdx, %rcx
    testq $-8, %rcx
    jne 103f
    shrq $1, %rdx
    addq OWN_SHIFT(%rdi), %rdx
    movl CHILD(%rsi), %ecx
    shlq $3, %rcx
    addq BASE(%rdi), %rcx
    cmpl %eax, 4(%rcx)
    je \known
103:
    .endm

    .hidden calls_enter, calls_enter_exact, calls_enter_indirect, calls_callback, calls_callback_indirect, calls_vector_start, calls_enter_known, calls_enter_unknown
    .hidden calls_current, calls_generation
    .hidden calls_followed
    .globl calls_enter, calls_enter_exact, calls_enter_indirect, calls_callback, calls_callback_indirect, calls_vector_start

// On entry: (%rsp) is where we return to, in the function; 8(%rsp) the function's own return address, and its place
// is the slot. No register may change, nor any flag matters. Five registers do for a call that is in the table
// (context.h). What is compared is read from one line of memory, and hardly anything waits for a result: the processor
// goes on with the function meanwhile. ABOVE: so many bytes lie between the hook's return address and these two.
// EXACT: in a full tree whose calls count for one each, nodes stay what they are, and 1 is what is added.
    .macro ENTER above, exact
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
    leaq 48+\above(%rsp), %rdx             // the slot
    movq 48+\above(%rsp), %rcx             // the call site
    movl 40+\above(%rsp), %eax             // the function
    imull $SPREAD, %edx, %esi
    shrl $16, %esi
    addl %ecx, %esi
    leal (%rsi, %rax, 4), %esi
    shll $5, %esi
    andl $TABLE_MASK, %esi
    addq %rdi, %rsi
    cmpq %rcx, SITE(%rsi)
    jne 6f
    cmpl %eax, BACK(%rsi)
    jne 6f
    cmpq %rdx, PLACE(%rsi)
    jne 3f
0:  movl calls_generation(%rip), %eax
    cmpl %eax, GENERATION(%rdi)
    jne 5f                          // cells may be wrong, or we are inside of the tree
    shrq $1, %rdx
    addq OWN_SHIFT(%rdi), %rdx      // the cell
    movl CHILD(%rsi), %ecx
    shlq $3, %rcx
    addq BASE(%rdi), %rcx           // the child
    movslq DISTANCE(%rsi), %rax
    movl (%rdx, %rax), %eax         // the caller
    cmpl %eax, 4(%rcx)
    jne 4f
1:
    .ifeq \exact
    movl EDGE(%rsi), %eax           // nodes of a tree that forgets become others
    cmpl %eax, (%rcx)
    jne 5f
    .endif
    movl CHILD(%rsi), %eax
    movl %eax, (%rdx)               // first: a handler that comes in between finds us in our place
    .if \exact
    incq 16(%rcx)
    .else
    movq AMOUNT(%rdi), %rax
    addq %rax, 16(%rcx)
    .endif
    .cfi_remember_state
2:  RESTORE %rax
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
9:  RESTORE %rdi
    ret
    .cfi_restore_state

    // With a condition.
    .p2align 4
3:  CHECK_CONDITION 0b
    movq 48+\above(%rsp), %rcx
    movl 40+\above(%rsp), %eax
    // In the place beside.
    .p2align 4
6:  xorq $BESIDE, %rsi
    cmpq %rcx, SITE(%rsi)
    jne 5f
    cmpl %eax, BACK(%rsi)
    jne 5f
    cmpq %rdx, PLACE(%rsi)
    je 0b
    CHECK_CONDITION 0b
    jmp 5f

    // The same call, but the caller was called by another: it has a place of its own.
    .p2align 4
4:  imull $SPREAD, %eax, %ecx
    shrl $13, %ecx
    andl $TABLE_MASK, %ecx
    subq %rdi, %rsi
    xorq %rcx, %rsi
    andq $~BESIDE, %rsi
    addq %rdi, %rsi
    COMPARE_WITH_CALLER 1b, \above
    xorq $BESIDE, %rsi
    COMPARE_WITH_CALLER 1b, \above

    // A call that is not in the table, or a node that is new. Our own code: no vector register is touched.
    .p2align 4
5:  leaq 48+\above(%rsp), %rsi
    BEGIN_FRAME -96
    andq $-16, %rsp
    movq 80+\above(%rbp), %rdx
    movq (%rbp), %rcx
    call calls_enter_known
    cmpl $1, %eax
    jne 7f
6:  END_FRAME
    jmp 2b

    // What asks libc and the loader: all vector state is saved, arguments may be in any of it.
7:  .cfi_def_cfa rbp, 96
    .cfi_offset rbp, -96
    movl %eax, %r8d
    CALL_WITH_VECTORS_SAVED calls_enter_unknown, calls_current, \above
    jmp 6b
    .cfi_endproc
    .endm

    .text
    .p2align 6
    .type calls_enter, @function
calls_enter:
    ENTER 0, 0
    .size calls_enter, . - calls_enter

    .p2align 6
    .type calls_enter_exact, @function
calls_enter_exact:
    ENTER 0, 1
    .size calls_enter_exact, . - calls_enter_exact

// The same from a detour that knows the function at run time alone: above the hook's return address lies the function
// itself, which stands for where other hooks return to, and then its return address.
    .p2align 6
    .type calls_enter_indirect, @function
calls_enter_indirect:
    ENTER 8, 0
    .size calls_enter_indirect, . - calls_enter_indirect

// From code whose own calls are not followed, with the target above the return address: only calls of followed code
// count. calls_followed has the bounds of that, and ends with zeroes.
    .macro CALLBACK enter
    .cfi_startproc
    SAVE %rdi
    SAVE %rsi
    movq 24(%rsp), %rdi
    leaq calls_followed(%rip), %rsi
1:  cmpq $0, 8(%rsi)
    je 3f
    cmpq (%rsi), %rdi
    jb 2f
    cmpq 8(%rsi), %rdi
    jb 4f
2:  addq $16, %rsi
    jmp 1b
    .cfi_remember_state
3:  RESTORE %rsi
    RESTORE %rdi
    ret
    .cfi_restore_state
4:  RESTORE %rsi
    RESTORE %rdi
    jmp \enter
    .cfi_endproc
    .endm

    .p2align 4
    .type calls_callback, @function
calls_callback:
    CALLBACK calls_enter
    .size calls_callback, . - calls_callback

    .p2align 4
    .type calls_callback_indirect, @function
calls_callback_indirect:
    CALLBACK calls_enter_indirect
    .size calls_callback_indirect, . - calls_callback_indirect

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
