// SPDX-License-Identifier: MIT
// The hook at the entry of a followed function. See calls.h; the offsets are those of struct calls_thread.

#include "track/calls/hook_x86_64.h"

// As in module_pages.h.
#define CALLS_CHUNKS 8192
#define CALLS_CHUNK_SHIFT 21
#define CALLS_CHUNK_PAGES 512
#define CALLS_PAGE_FOLLOWED 0x8000

#define GENERATION 0
#define AMOUNT 8
#define OWN_SHIFT 16
#define BASE 24
#define HOOK_STACK 32
#define SITE 64
#define PLACE 72
#define BACK 80
#define CHILD 84
#define EDGE 88
#define DISTANCE 92
#define RETURNS (64 + 16384 * 32)
#define BOTTOM (RETURNS + 8)
#define RETURNS_AT (RETURNS + 16)
#define BOTTOM_AT (RETURNS + 20)
#define POINTER (RETURNS + 24)
#define POINTER_AT (RETURNS + 28)
#define CHILDREN (64 + 16384 * 64)
#define PARENT 0
#define FIRST_CHILD 8
#define VALUE 16
#define CALL_CACHE_BY_FP 1
#define CALL_CACHE_BRIDGED 2
#define SPREAD 0x3c6ef360           // a context has 32 bytes
#define TABLE_MASK (16383 << 5)
#define BESIDE 32

// Makes rsi the place of the call, seen from the thread's own (rdi): one for a site, a function and a slot. Changes
// rax. SAVED: so many registers lie below the hook's return address.
    .macro FIND_PLACE saved, above
    movl 8*(\saved+1)+\above(%rsp), %eax   // the call site
    movl 8*\saved+\above(%rsp), %esi       // the function
    leal (%rax, %rsi, 4), %esi
    imull $SPREAD, %esi, %esi
    leaq 8*(\saved+1)+\above(%rsp), %rax   // the slot
    leal (%rsi, %rax, 2), %esi
    andl $TABLE_MASK, %esi
    .endm

// Goes to 109 if the word that the context at rsi knows of the stack is another one by now. Changes rax.
    .macro CHECK_WORD at, word, above
    movl \at(%rdi, %rsi), %eax
    movq 40+\above(%rsp, %rax), %rax
    cmpq %rax, \word(%rdi, %rsi)
    jne 109f
    .endm

// Goes on at KNOWN if the context at rsi, which is of the site and the function, is of the slot (rdx), too, and has a
// condition that holds. Four registers are saved. Changes rax.
    .macro CHECK_CONDITION known, above
    movq PLACE(%rdi, %rsi), %rax
    subq %rdx, %rax
    cmpq $CALL_CACHE_BRIDGED, %rax
    jne 101f
    CHECK_WORD RETURNS_AT, RETURNS, \above
100:
    movl POINTER_AT(%rdi, %rsi), %eax
    movl 40+\above(%rsp, %rax), %eax
    cmpl %eax, POINTER(%rdi, %rsi)
    je \known
    jmp 109f
101:
    cmpq $7, %rax
    ja 109f
    testb $CALL_CACHE_BRIDGED, %al
    jz 102f
    CHECK_WORD RETURNS_AT, RETURNS, \above
    CHECK_WORD BOTTOM_AT, BOTTOM, \above
    testb $CALL_CACHE_BY_FP, PLACE(%rdi, %rsi)
    jz 100b
102:
    cmpl %ebp, POINTER(%rdi, %rsi)
    je \known
109:
    .endm

// Goes on at KNOWN if the node with that parent and edge (rax) is in its place, or beside, and makes rcx that node.
    .macro LOOK_UP_NODE known
    movq %rax, %rcx
    imulq calls_spread(%rip), %rcx
    shrq $47, %rcx
    andl $~15, %ecx
    cmpq %rax, CHILDREN(%rdi, %rcx)
    je \known
    xorl $16, %ecx
    cmpq %rax, CHILDREN(%rdi, %rcx)
    je \known
    .endm

    .macro FIND_THREAD
    movq calls_current@gottpoff(%rip), %rdi
    movq %fs:(%rdi), %rdi
    .endm

    .hidden calls_enter, calls_enter_exact, calls_enter_indirect, calls_enter_indirect_exact, calls_vector_start, calls_enter_known, calls_enter_unknown
    .hidden calls_callback, calls_callback_exact, calls_callback_indirect, calls_callback_indirect_exact
    .hidden calls_current, calls_generation
    .hidden calls_chunk_tags, calls_chunk_pages
    .globl calls_enter, calls_enter_exact, calls_enter_indirect, calls_enter_indirect_exact, calls_vector_start
    .globl calls_callback, calls_callback_exact, calls_callback_indirect, calls_callback_indirect_exact

// On entry: (%rsp) is where we return to, in the function; 8(%rsp) the function's own return address, and its place is
// the slot. No register may change, nor any flag matters. Four registers do for a call that is in the table
// (call_cache.h). All compared words lie in one cache line, and hardly anything waits for a result: the processor goes on
// with the function meanwhile. ABOVE: so many bytes lie between the hook's return address and these two. EXACT: in a
// full tree whose calls count for one each, nodes stay what they are, and 1 is what is added.
    .macro ENTER above, exact
    .cfi_startproc
    SAVE %rdi
    FIND_THREAD
    testq %rdi, %rdi
    jz 9f
    SAVE %rsi
    SAVE %rdx
    SAVE %rax
    movq 40+\above(%rsp), %rax             // the call site
    movl 32+\above(%rsp), %esi             // the function
    leal (%rax, %rsi, 4), %esi
    imull $SPREAD, %esi, %esi
    leaq 40+\above(%rsp), %rdx             // the slot
    leal (%rsi, %rdx, 2), %esi
    andl $TABLE_MASK, %esi
    cmpq %rax, SITE(%rdi, %rsi)
    jne 3f
    movl 32+\above(%rsp), %eax
    cmpl %eax, BACK(%rdi, %rsi)
    jne 3f
    cmpq %rdx, PLACE(%rdi, %rsi)
    jne 31f
0:  movl calls_generation(%rip), %eax
    cmpl %eax, GENERATION(%rdi)
    jne 5f                          // cells may be wrong, or we are inside of the tree
    shrq $1, %rdx
    addq OWN_SHIFT(%rdi), %rdx      // the cell
    movslq DISTANCE(%rdi, %rsi), %rax
    movl (%rdx, %rax), %eax         // the caller
    .if \exact
    movl CHILD(%rdi, %rsi), %esi
    movq BASE(%rdi), %rdi
    cmpl %eax, PARENT(%rdi, %rsi, 8)
    jne 4f
    movl %esi, (%rdx)               // first: a handler that comes in between finds us in our place
    incq VALUE(%rdi, %rsi, 8)
    .else
    SAVE %rcx
    movq CHILD(%rdi, %rsi), %rcx    // with the edge above it: nodes of a tree that forgets become others
    movl %ecx, %esi
    subq %rsi, %rcx
    addq %rax, %rcx                 // the edge above the caller, as in a node
    movq BASE(%rdi), %rax
    cmpq %rcx, PARENT(%rax, %rsi, 8)
    jne 41f
    movl %esi, (%rdx)               // first, too
    movq AMOUNT(%rdi), %rcx
    addq %rcx, VALUE(%rax, %rsi, 8)
    RESTORE %rcx
    .endif
    .cfi_remember_state
8:  RESTORE %rax
    RESTORE %rdx
    RESTORE %rsi
9:  RESTORE %rdi
    ret
    .cfi_restore_state
    .cfi_remember_state

    // The same call, but the caller (eax, or ecx) was called by another. The cell is in rdx.
    .p2align 4
4:  SAVE %rcx
    .if \exact
    movl %eax, %ecx
    .else
41: movl %ecx, %ecx
    .endif
    FIND_THREAD
    movq BASE(%rdi), %rax
    cmpl $0, FIRST_CHILD(%rax, %rcx, 8)
    je 51f                          // it has not called anybody
    FIND_PLACE 5, \above
    movq 48+\above(%rsp), %rax
    cmpq %rax, SITE(%rdi, %rsi)
    jne 43f
    movl 40+\above(%rsp), %eax
    cmpl %eax, BACK(%rdi, %rsi)
    jne 43f
    leaq 48+\above(%rsp), %rax
    xorq PLACE(%rdi, %rsi), %rax
    testq $-8, %rax
    je 44f
43: xorl $BESIDE, %esi
44: movl EDGE(%rdi, %rsi), %eax
    shlq $32, %rax
    orq %rcx, %rax
    LOOK_UP_NODE 45f
    jmp 51f
45: movl CHILDREN+8(%rdi, %rcx), %ecx
    .if \exact
    movl %ecx, CHILD(%rdi, %rsi)    // no handler has this slot
    movl %ecx, (%rdx)
    movq BASE(%rdi), %rax
    incq VALUE(%rax, %rcx, 8)
    .else
    movl %ecx, CHILD(%rdi, %rsi)    // as above; who finds it looks at the node
    movq AMOUNT(%rdi), %rsi
    movq BASE(%rdi), %rdi
    cmpq %rax, PARENT(%rdi, %rcx, 8)
    jne 46f
    movl %ecx, (%rdx)
    addq %rsi, VALUE(%rdi, %rcx, 8)
    .endif
    RESTORE %rcx
    jmp 8b
    .if !\exact
    .cfi_adjust_cfa_offset 8        // rcx lies there still
46: FIND_THREAD
    jmp 51f
    .endif

    // With a condition, or in the place beside.
    .cfi_restore_state
    .p2align 4
31: CHECK_CONDITION 0b, \above
3:  xorl $BESIDE, %esi
    movq 40+\above(%rsp), %rax
    cmpq %rax, SITE(%rdi, %rsi)
    jne 5f
    movl 32+\above(%rsp), %eax
    cmpl %eax, BACK(%rdi, %rsi)
    jne 5f
    cmpq %rdx, PLACE(%rdi, %rsi)
    je 0b
    CHECK_CONDITION 0b, \above

    // A call that is not in the table, or a node that is new. Our own code: no vector register is touched.
    .p2align 4
5:  SAVE %rcx
51: BEGIN_FRAME
    MAKE_ROOM calls_current, HOOK_STACK, 61f
    leaq 88+\above(%rbp), %rsi
    movq 80+\above(%rbp), %rdx
    movq (%rbp), %rcx
    call calls_enter_known
    cmpl $1, %eax
    jne 7f
    .cfi_remember_state
6:  LEAVE_ROOM calls_current, HOOK_STACK
61: END_FRAME
    RESTORE %rcx
    jmp 8b

    // The way that asks libc and the loader: all vector state is saved, as arguments may be in any of it.
    .cfi_restore_state
7:
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

    .p2align 6
    .type calls_enter_indirect_exact, @function
calls_enter_indirect_exact:
    ENTER 8, 1
    .size calls_enter_indirect_exact, . - calls_enter_indirect_exact

// From code whose own calls are not followed, with the target above the return address: only calls of followed code
// count. module_pages.h says which that is.
    .macro CALLBACK enter
    .cfi_startproc
    SAVE %rdi
    SAVE %rsi
    SAVE %rax
    movq 32(%rsp), %rdi
    movq %rdi, %rax
    shrq $CALLS_CHUNK_SHIFT, %rax
    leaq calls_chunk_tags(%rip), %rsi
1:  andl $(CALLS_CHUNKS - 1), %eax
    movl (%rsi, %rax, 4), %esi
    testl %esi, %esi
    jz 3f
    shlq $CALLS_CHUNK_SHIFT, %rsi
    xorq %rdi, %rsi
    shrq $CALLS_CHUNK_SHIFT, %rsi
    leaq calls_chunk_tags(%rip), %rsi
    jnz 2f
    leaq calls_chunk_pages(%rip), %rsi
    shrl $12, %edi
    andl $(CALLS_CHUNK_PAGES - 1), %edi
    shll $9, %eax
    addl %edi, %eax
    testb $(CALLS_PAGE_FOLLOWED >> 8), 1(%rsi, %rax, 2)
    jnz 4f
    .cfi_remember_state
3:  RESTORE %rax
    RESTORE %rsi
    RESTORE %rdi
    ret
    .cfi_restore_state
    .cfi_remember_state
2:  incl %eax
    jmp 1b
    .cfi_restore_state
4:  RESTORE %rax
    RESTORE %rsi
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
    .type calls_callback_exact, @function
calls_callback_exact:
    CALLBACK calls_enter_exact
    .size calls_callback_exact, . - calls_callback_exact

    .p2align 4
    .type calls_callback_indirect, @function
calls_callback_indirect:
    CALLBACK calls_enter_indirect
    .size calls_callback_indirect, . - calls_callback_indirect

    .p2align 4
    .type calls_callback_indirect_exact, @function
calls_callback_indirect_exact:
    CALLBACK calls_enter_indirect_exact
    .size calls_callback_indirect_exact, . - calls_callback_indirect_exact

// The state to save on this processor: SSE, AVX and AVX-512 state, as far as the system uses it.
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

    .section .rodata
    .p2align 3
calls_spread:
    .quad 0x9e3779b97f4a7c15
    .text

    .globl vector_mask, vector_bytes
    .comm vector_mask, 8, 8
    .comm vector_bytes, 8, 8

    .section .note.GNU-stack, "", @progbits
