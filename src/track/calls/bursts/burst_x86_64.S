// SPDX-License-Identifier: MIT
#include "track/calls/hook_x86_64.h"

#define HOOK_STACK 32                   // in struct calls_thread
#define PACE_PASS 0x7fffffffffffffff    // as in burst_pace.h

    .hidden burst_turn_enter, burst_turn, burst_cells, burst_try_relays, burst_try_nothing, calls_enter, calls_current
    .globl burst_turn_enter, burst_try_relays, burst_try_nothing

    .text
// Relays jump here when a slice of calls is used up: it may be the last, or the call continues to the hook.
    .p2align 5
    .type burst_turn_enter, @function
burst_turn_enter:
    .cfi_startproc
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    SAVE %rax
    movq burst_cells@gottpoff(%rip), %rax
    movq calls_current@gottpoff(%rip), %rdi
    cmpq $0, %fs:(%rdi)
    je 2f
    BEGIN_FRAME
    MAKE_ROOM calls_current, HOOK_STACK, 6f
    CALL_WITH_VECTORS_SAVED burst_turn, calls_current
    LEAVE_ROOM calls_current, HOOK_STACK
6:  END_FRAME
    movq burst_cells@gottpoff(%rip), %rax
3:
    cmpq $0, %fs:(%rax)             // below nought, calls are followed
    RESTORE %rax
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    jns 1f
    jmp calls_enter
1:  ret
    .cfi_adjust_cfa_offset 40
2:  movabsq $PACE_PASS, %rdi        // a thread that is not followed
    movq %rdi, %fs:(%rax)
    jmp 3b
    .cfi_endproc
    .size burst_turn_enter, . - burst_turn_enter

// The code of relays (entries.c), and the same number of calls without it: for measuring its cost.
    .p2align 5
    .type burst_try_relays, @function
burst_try_relays:
    .cfi_startproc
    movq burst_cells@gottpoff(%rip), %rsi
1:  call 2f
    decq %rdi
    jnz 1b
    ret
    .p2align 4
2:  call 3f
    ret
    .p2align 4
3:  decq %fs:(%rsi)
    js 4f
    jo 4f
4:  ret
    .cfi_endproc
    .size burst_try_relays, . - burst_try_relays

    .p2align 5
    .type burst_try_nothing, @function
burst_try_nothing:
    .cfi_startproc
1:  call 2f
    decq %rdi
    jnz 1b
    ret
    .p2align 4
2:  ret
    .cfi_endproc
    .size burst_try_nothing, . - burst_try_nothing

    .section .note.GNU-stack, "", @progbits
