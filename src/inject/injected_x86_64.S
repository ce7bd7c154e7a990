// SPDX-License-Identifier: MIT
// The code that threads of another process run. See injected.h.

    .hidden injected_call_code, injected_code, injected_code_end
    .globl injected_call_code, injected_code, injected_code_end

// Signals are let in again, and all registers but rsp are as they were, one after the other. No
// instruction here changes flags, and a system call keeps them.
.macro go_back data
    movl $14, %eax
    movl $2, %edi
    leaq \data(%rip), %rsi
    movl $0, %edx
    movl $8, %r10d
    syscall
    movq \data + 8(%rip), %rax
    movq \data + 16(%rip), %rbx
    movq \data + 24(%rip), %rcx
    movq \data + 32(%rip), %rdx
    movq \data + 40(%rip), %rsi
    movq \data + 48(%rip), %rdi
    movq \data + 56(%rip), %rbp
    movq \data + 72(%rip), %r8
    movq \data + 80(%rip), %r9
    movq \data + 88(%rip), %r10
    movq \data + 96(%rip), %r11
    movq \data + 104(%rip), %r12
    movq \data + 112(%rip), %r13
    movq \data + 120(%rip), %r14
    movq \data + 128(%rip), %r15
    jmp *\data + 136(%rip)
.endm

    .text
    .p2align 4
    .type injected_call_code, @function
injected_call_code:
    syscall
    go_back injected_call_code + 160
    .org injected_call_code + 160
    .size injected_call_code, . - injected_call_code

// The offsets of struct injected, which lies a page behind the code.
#define DATA injected_code + 4096
#define AT(offset) DATA + offset(%rip)
#define FUNCTION 152
#define DLOPEN 160
#define ENTRY 168
#define STACK 176
#define SAVED 184
#define PATH 192
#define ARGUMENT 200
#define RESULT 208
#define DONE 216
#define CREATE 224
#define PREPARE 232
#define SET_DETACHED 240
#define SET_STACK 248
#define THREAD 256
#define HANDLE 264
#define TICKS 272
#define NO_TIME 280
#define PROCESS 296
#define SELF 304
#define ATTRIBUTES 312
#define SIGNAL_INFO 440

    .p2align 4
    .type injected_code, @function
injected_code:
    movq AT(STACK), %rsp
    movq AT(SAVED), %rdi
    movl $-1, %eax
    movl $-1, %edx
    xsave64 (%rdi)
    cmpq $0, AT(CREATE)
    je 1f
    leaq AT(ATTRIBUTES), %rdi
    call *AT(PREPARE)
    leaq AT(ATTRIBUTES), %rdi
    movl $1, %esi
    call *AT(SET_DETACHED)
    // It fails where thread-local variables are larger than that, and then the default stays.
    leaq AT(ATTRIBUTES), %rdi
    movl $524288, %esi
    call *AT(SET_STACK)
    leaq AT(HANDLE), %rdi
    leaq AT(ATTRIBUTES), %rsi
    leaq injected_thread(%rip), %rdx
    movl $0, %ecx
    call *AT(CREATE)
    testl %eax, %eax
    jz 2f
    movq $-81, AT(RESULT)
    movq $1, AT(DONE)
    jmp 2f
1:  call injected_run

    // Ticks that waited here would interrupt the call that the thread goes back to.
2:  movl $128, %eax
    leaq AT(TICKS), %rdi
    leaq AT(SIGNAL_INFO), %rsi
    leaq AT(NO_TIME), %rdx
    movl $8, %r10d
    syscall
    testl %eax, %eax
    jle 3f
    cmpl $16, %eax // SIGSTKFLT
    je 2b
    cmpl $6, AT(SIGNAL_INFO + 8) // TRAP_PERF
    je 2b
    // It is the program's.
    movl %eax, %edx
    movl $297, %eax
    movq AT(PROCESS), %rdi
    movq AT(SELF), %rsi
    leaq AT(SIGNAL_INFO), %r10
    syscall
3:  movq AT(SAVED), %rdi
    movl $-1, %eax
    movl $-1, %edx
    xrstor64 (%rdi)
    pushq AT(144)
    popfq
    // Handlers that wait run on the thread's own stack.
    movq AT(64), %rsp
    go_back DATA
    .size injected_code, . - injected_code

    .type injected_thread, @function
injected_thread:
    subq $8, %rsp
    movl $186, %eax
    syscall
    movq %rax, AT(THREAD)
    call injected_run
    movl $0, %eax
    addq $8, %rsp
    ret
    .size injected_thread, . - injected_thread

    .type injected_run, @function
injected_run:
    subq $8, %rsp
    movq AT(FUNCTION), %rax
    testq %rax, %rax
    jnz 1f
    // A handle of the loader's begins with the address that the library is loaded at.
    movq AT(PATH), %rdi
    movl $0x1002, %esi
    call *AT(DLOPEN)
    testq %rax, %rax
    jz 2f
    movq (%rax), %rax
    addq AT(ENTRY), %rax
1:  movq AT(ARGUMENT), %rdi
    call *%rax
    jmp 3f
2:  movq $-80, %rax
3:  movq %rax, AT(RESULT)
    movq $1, AT(DONE)
    addq $8, %rsp
    ret
    .size injected_run, . - injected_run
injected_code_end:

    .section .note.GNU-stack, "", @progbits
