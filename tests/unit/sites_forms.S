// SPDX-License-Identifier: MIT
// Every form of call and tail jump, and what looks like one. Each function form_*(x) calls
// callee(x), which returns 3 * x + 1, or something like it, and changes what it gets.

#define FUNCTION(name) \
    .globl name; .protected name; .type name, @function; .p2align 4; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name
#define PUSH pushq %rbx; .cfi_def_cfa_offset 16; .cfi_offset rbx, -16
#define POP popq %rbx; .cfi_def_cfa_offset 8; .cfi_restore rbx

    .text
FUNCTION(callee)
    leaq 1(%rdi,%rdi,2), %rax
    movl $-1, %ecx
    ret
END(callee)

// Adds up two arguments in registers and two on the stack.
FUNCTION(callee_stack)
    leaq (%rdi,%rsi), %rax
    addq 8(%rsp), %rax
    addq 16(%rsp), %rax
    ret
END(callee_stack)

FUNCTION(form_direct)
    PUSH
    call callee
    addq $2, %rax
    POP
    ret
END(form_direct)

FUNCTION(form_bnd)
    PUSH
    bnd call callee
    POP
    ret
END(form_bnd)

FUNCTION(form_stack)
    PUSH
    pushq %rdi
    .cfi_def_cfa_offset 24
    pushq $7
    .cfi_def_cfa_offset 32
    leaq 5(%rdi), %rsi
    call callee_stack
    addq $16, %rsp
    .cfi_def_cfa_offset 16
    POP
    ret
END(form_stack)

FUNCTION(form_plt)
    PUSH
    call llabs@PLT
    POP
    ret
END(form_plt)

FUNCTION(form_got)
    PUSH
    call *llabs@GOTPCREL(%rip)
    POP
    ret
END(form_got)

FUNCTION(form_register)
    leaq callee(%rip), %rax
    PUSH
    call *%rax
    addq $2, %rax
    POP
    ret
END(form_register)

FUNCTION(form_extended)
    leaq callee(%rip), %r11
    PUSH
    call *%r11
    addq $2, %rax
    POP
    ret
END(form_extended)

FUNCTION(form_notrack)
    leaq callee(%rip), %rax
    PUSH
    notrack call *%rax
    addq $2, %rax
    POP
    ret
END(form_notrack)

FUNCTION(form_memory)
    leaq table(%rip), %rax
    PUSH
    call *(%rax)
    movq %rax, %rbx
    addq %rbx, %rax
    POP
    ret
END(form_memory)

FUNCTION(form_memory_near)
    leaq table(%rip), %rax
    PUSH
    call *8(%rax)
    movq constant(%rip), %rbx
    addq %rbx, %rax
    POP
    ret
END(form_memory_near)

FUNCTION(form_memory_stack)
    PUSH
    leaq callee(%rip), %rax
    pushq %rax
    .cfi_def_cfa_offset 24
    subq $8, %rsp
    .cfi_def_cfa_offset 32
    call *8(%rsp)
    addq $16, %rsp
    .cfi_def_cfa_offset 16
    POP
    ret
END(form_memory_stack)

FUNCTION(form_memory_far)
    leaq table-512(%rip), %rax
    PUSH
    call *512(%rax)
    POP
    ret
END(form_memory_far)

FUNCTION(form_memory_indexed)
    leaq table(%rip), %rax
    movl $1, %edx
    PUSH
    call *0(%rax,%rdx,8)
    addq $2, %rax
    POP
    ret
END(form_memory_indexed)

FUNCTION(form_memory_rip)
    PUSH
    call *table(%rip)
    POP
    ret
END(form_memory_rip)

// Neighbours that refer to where they are.
FUNCTION(form_then_rip)
    leaq callee(%rip), %rax
    PUSH
    call *%rax
    addq constant(%rip), %rax
    POP
    ret
END(form_then_rip)

FUNCTION(form_then_branch)
    leaq callee(%rip), %rax
    PUSH
    call *%rax
    testl %eax, %eax
    js 1f
    addq $5, %rax
    POP
    ret
    .cfi_adjust_cfa_offset 8
1:  subq $5, %rax
    POP
    ret
END(form_then_branch)

FUNCTION(form_then_jump)
    leaq callee(%rip), %rax
    PUSH
    call *%rax
    jmp 2f
    nop
    nop
1:  addq $100, %rax
2:  addq $1, %rax
    POP
    cmpq $-1000, %rax
    .cfi_remember_state
    jl 1b
    ret
    .cfi_restore_state
END(form_then_jump)

FUNCTION(form_then_return)
    leaq callee(%rip), %rax
    subq $8, %rsp
    .cfi_def_cfa_offset 16
    call *%rax
    popq %rcx
    .cfi_def_cfa_offset 8
    ret
    nop
    nop
END(form_then_return)

// Somebody jumps to the neighbour: only a trap will do.
FUNCTION(form_reached)
    PUSH
    movq %rdi, %rbx
    leaq callee(%rip), %rax
    testq %rdi, %rdi
    js 1f
    call *%rax
1:  addq %rbx, %rax
    subq %rax, %rax
    leaq 3(%rbx), %rax
    POP
    ret
END(form_reached)

// The same, and neither padding nor a long instruction is within reach of two bytes.
FUNCTION(form_trapped)
    PUSH
    movq %rdi, %rbx
    leaq callee(%rip), %rax
    .fill 140, 1, 0x90
    testq %rdi, %rdi
    js 1f
    call *%rax
1:  addq %rbx, %rax
    subq %rax, %rax
    leaq 3(%rbx), %rax
    .fill 140, 1, 0x90
    POP
    ret
END(form_trapped)

// The same, with an instruction of six bytes or more behind it, which sets rcx.
#define DISPLACED(name, ...) \
FUNCTION(name); \
    PUSH; \
    movq %rdi, %rbx; \
    leaq callee(%rip), %rax; \
    .fill 140, 1, 0x90; \
    testq %rdi, %rdi; \
    js 1f; \
    call *%rax; \
1:  __VA_ARGS__; \
    leaq (%rbx,%rcx), %rax; \
    .fill 140, 1, 0x90; \
    POP; \
    ret; \
END(name)

DISPLACED(form_displaced_six, movl constant(%rip), %ecx)
DISPLACED(form_displaced_seven, movq constant(%rip), %rcx)
DISPLACED(form_displaced_eight, leaq 0x12345(%rbx,%rbx), %rcx)
DISPLACED(form_displaced_nine, nopw 0x100(%rax,%rax); movl $9, %ecx)
DISPLACED(form_displaced_ten, movabsq $0x123456789, %rcx)
DISPLACED(form_displaced_block, movq %fs:0x28, %rcx; movl $7, %ecx)
DISPLACED(form_displaced_raced, movq constant(%rip), %rcx)

// What is long is before it, and runs several times: somebody jumps there.
FUNCTION(form_displaced_loop)
    PUSH
    movq %rdi, %rbx
    xorl %edx, %edx
    leaq callee(%rip), %rax
    .fill 140, 1, 0x90
1:  movq constant(%rip), %rcx
    addq %rcx, %rdx
    cmpl $120, %edx
    jl 1b
    testq %rdi, %rdi
    js 2f
    call *%rax
2:  addq %rbx, %rdx
    movq %rdx, %rax
    .fill 140, 1, 0x90
    POP
    ret
END(form_displaced_loop)

// Two that need room, each its own.
FUNCTION(form_displaced_twice)
    PUSH
    leaq callee(%rip), %rbx
    .fill 140, 1, 0x90
    testq %rdi, %rdi
    js 1f
    call *%rbx
1:  movl constant(%rip), %edx
    testq %rdi, %rdi
    js 2f
    call *%rbx
2:  movq constant(%rip), %rcx
    leaq (%rdx,%rcx), %rax
    .fill 140, 1, 0x90
    POP
    ret
END(form_displaced_twice)

// What is long may fault, or moves the stack pointer.
FUNCTION(form_trapped_long)
    PUSH
    movq %rdi, %rbx
    leaq callee(%rip), %rax
    leaq table-0x1234(%rip), %rdx
    .fill 140, 1, 0x90
    movq 0x1234(%rdx), %rcx
    subq $0x100, %rsp
    .cfi_adjust_cfa_offset 0x100
    testq %rdi, %rdi
    js 1f
    call *%rax
1:  addq $0x100, %rsp
    .cfi_adjust_cfa_offset -0x100
    leaq 3(%rbx), %rax
    .fill 140, 1, 0x90
    POP
    ret
END(form_trapped_long)

// What follows is shorter than the jump, and then the function ends.
FUNCTION(form_last)
    leaq callee(%rip), %rax
    pushq %rax
    .cfi_adjust_cfa_offset 8
    call *%rax
    popq %rcx
    .cfi_adjust_cfa_offset -8
    ret
END(form_last)

// Two short ones in a row: the first cannot take the second along.
FUNCTION(form_pair)
    leaq callee(%rip), %rax
    PUSH
    movq %rax, %rbx
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    call *%rbx
    call *%rbx
    addq $16, %rsp
    .cfi_adjust_cfa_offset -16
    addq %rdi, %rax
    POP
    ret
END(form_pair)

// What comes before moves: one long instruction, or short ones.
FUNCTION(form_lead_long)
    PUSH
    leaq callee(%rip), %rax
    call *%rax
    call callee
    POP
    ret
END(form_lead_long)

FUNCTION(form_lead_short)
    leaq callee(%rip), %rax
    PUSH
    movq %rdi, %rbx
    call *%rax
    call callee
    addq %rbx, %rax
    POP
    ret
END(form_lead_short)

FUNCTION(form_lead_several)
    movq table(%rip), %r11
    PUSH
    xorl %ebx, %ebx
    movl %edi, %esi
    leaq 1(%rdi), %rdi
    call *%r11
    call callee
    addq %rbx, %rax
    POP
    ret
END(form_lead_several)

// As compilers make them where the processor guesses too much.
FUNCTION(thunk_rax)
    call 2f
1:  pause
    lfence
    jmp 1b
2:  movq %rax, (%rsp)
    ret
END(thunk_rax)

FUNCTION(form_thunk)
    PUSH
    leaq callee(%rip), %rax
    call thunk_rax
    POP
    ret
END(form_thunk)

// Calls what the test wants, by a site of two bytes and by one of five.
FUNCTION(form_probe)
    movq probe(%rip), %rax
    PUSH
    call *%rax
    addq $4, %rax
    POP
    ret
END(form_probe)

FUNCTION(set_probe)
    movq %rdi, probe(%rip)
    ret
END(set_probe)

FUNCTION(form_probe_far)
    PUSH
    call jump_to_probe
    addq $4, %rax
    POP
    ret
END(form_probe_far)

FUNCTION(jump_to_probe)
    subq $8, %rsp
    .cfi_def_cfa_offset 16
    movq probe(%rip), %rax
    call *%rax
    addq $8, %rsp
    .cfi_def_cfa_offset 8
    ret
END(jump_to_probe)

FUNCTION(form_tail)
    addq $1, %rdi
    jmp callee
END(form_tail)

FUNCTION(form_tail_plt)
    addq $1, %rdi
    jmp llabs@PLT
END(form_tail_plt)

FUNCTION(form_tail_rip)
    addq $1, %rdi
    jmp *table(%rip)
END(form_tail_rip)

FUNCTION(form_tail_register)
    leaq table(%rip), %rax
    movq (%rax), %rax
    jmp *%rax
    nop
    nop
    nop
END(form_tail_register)

FUNCTION(form_tail_memory)
    leaq table(%rip), %rax
    jmp *8(%rax)
    nop
    nop
END(form_tail_memory)

// A call by a pointer to a member function in C++, which is one more than the distance of its entry
// from the begin of the table of virtual functions, or an address.
FUNCTION(form_tail_member)
    leaq table(%rip), %rax
    movl $9, %edx
    testb $1, %dl
    je 1f
    movq -1(%rax,%rdx), %rdx
1:  jmp *%rdx
    nop
    nop
    nop
END(form_tail_member)

// Somebody jumps to the last instruction, and nothing follows but padding.
FUNCTION(form_tail_ends)
    leaq table(%rip), %rax
    testq %rdi, %rdi
    jns 1f
    addq $8, %rax
1:  jmp *(%rax)
END(form_tail_ends)

// What is between is no part of the target, though its opcode has the number of rax.
FUNCTION(form_tail_counts)
    leaq table(%rip), %rdx
    movq (%rdx), %rax
    addl $1, counted(%rip)
    jmp *%rax
    nop
    nop
    nop
END(form_tail_counts)

// Nor does a jump of the same kind change it, or what is written to a vector of that number.
FUNCTION(form_tail_between)
    leaq table(%rip), %rdx
    movq (%rdx), %rax
    testq %rdi, %rdi
    jns 1f
    jmp *%rax
    nop
    nop
    nop
1:  movsd counted(%rip), %xmm0
    jmp *%rax
    nop
    nop
    nop
END(form_tail_between)

FUNCTION(pick)
    leaq callee(%rip), %rax
    ret
END(pick)

// A jump over the call needs the instruction that comes before the jump, and so would a jump over
// that.
FUNCTION(form_shared_neighbour)
    subq $8, %rsp
    .cfi_def_cfa_offset 16
    leaq pick(%rip), %rax
    testq %rdi, %rdi
    jns 1f
    negq %rdi
1:  call *%rax
    addq $8, %rsp
    .cfi_def_cfa_offset 8
    jmp *%rax
END(form_shared_neighbour)

// Its neighbour leads to the middle of another part.
FUNCTION(form_then_part)
    PUSH
    leaq callee(%rip), %rax
    testq %rdi, %rdi
    js 1f
1:  call *%rax
    jmp then_part_middle
END(form_then_part)

    .section .text.part, "ax", @progbits
FUNCTION(then_part)
    ret
then_part_middle:
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    addq $1, %rax
    POP
    ret
END(then_part)
    .text

// The second one needs what is between them.
FUNCTION(form_two)
    leaq table(%rip), %rax
    PUSH
    movq %rax, %rbx
    nop
    call *(%rax)
    movq %rbx, %rcx
    call *8(%rcx)
1:  addq $1, %rax
    testq %rax, %rax
    jz 1b
    POP
    ret
END(form_two)

// What must be left alone.
FUNCTION(stays_switch)
    movl %edi, %eax
    andl $1, %eax
    leaq switch_table(%rip), %rdx
    movslq (%rdx,%rax,4), %rax
    addq %rdx, %rax
    jmp *%rax
switch_even:
    leaq 1(%rdi), %rax
    ret
switch_odd:
    leaq 2(%rdi), %rax
    ret
END(stays_switch)

FUNCTION(stays_next)
    call 1f
1:  popq %rax
    subq %rax, %rax
    addq %rdi, %rax
    ret
END(stays_next)

FUNCTION(where_am_i)
    movq (%rsp), %rax
    ret
END(where_am_i)

FUNCTION(where_with_frame)
    subq $24, %rsp
    .cfi_def_cfa_offset 32
    movq 24(%rsp), %rax
    addq $24, %rsp
    .cfi_def_cfa_offset 8
    ret
END(where_with_frame)

FUNCTION(stays_reads)
    PUSH
    call where_am_i
    movq %rax, %rbx
    call where_with_frame
    subq %rbx, %rax
    POP
    ret
END(stays_reads)

FUNCTION(stays_named)
    PUSH
    call dlsym@PLT
    POP
    ret
END(stays_named)

FUNCTION(stays_prefixed)
    PUSH
    .byte 0x66, 0x66, 0x48
    call callee
    POP
    ret
END(stays_prefixed)

FUNCTION(stays_cold)
    cmpq $5, %rdi
    jg cold_part
    leaq 1(%rdi), %rax
    ret
stays_cold_back:
    addq $2, %rax
    ret
END(stays_cold)

FUNCTION(cold_part)
    leaq 9(%rdi), %rax
    jmp stays_cold_back
END(cold_part)

    .section .data.rel.local, "aw", @progbits
    .p2align 3
table:
    .quad callee, callee
probe:
    .quad callee
counted:
    .quad 0
    .section .rodata, "a", @progbits
    .p2align 3
constant:
    .quad 40
switch_table:
    .long switch_even - switch_table, switch_odd - switch_table
    .section .note.GNU-stack, "", @progbits
