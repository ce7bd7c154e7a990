// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_INJECTED_H
#define CAIRN_INJECT_INJECTED_H

// Code of the tool's that threads of another process run. Each piece finds its data a fixed way
// behind it, and ends by putting back all that the thread had by itself. Nobody has to watch: the
// tool may be killed at any time.

#include <stdint.h>

// The mask of the signals of a thread, and its registers, as they were.
struct injected_return {
    uint64_t mask;
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rip, flags;
};

// One system call. This lies in a room (room.h) of the process' own code. It touches no stack, and
// no register but those of `back`.
#define INJECTED_CALL_DATA 160
#define INJECTED_CALL_BYTES (INJECTED_CALL_DATA + sizeof(struct injected_call))
struct injected_call {
    struct injected_return back;
    uint64_t thread; // whose data they are
};

extern const unsigned char injected_call_code[INJECTED_CALL_DATA];

// A call of the agent. It lies in memory that is mapped for it:
//
//   | code: one page | struct injected, texts: two pages | registers (xsave) | ... stack |
//
// In a process of several threads the thread only creates another one, which loads the agent and
// calls it: the loader may have to wait for what the first one holds. Elsewhere it calls by itself.
#define INJECTED_PAGE 4096
#define INJECTED_TEXT (2 * INJECTED_PAGE) // from here on: texts of the tool's
#define INJECTED_SAVED (4 * INJECTED_PAGE)
#define INJECTED_BYTES ((uint64_t)320 << 10)
#define INJECTED_THREAD_STACK ((uint64_t)512 << 10)

// The code knows these offsets.
struct injected {
    struct injected_return back;
    uint64_t function; // 0: load the agent, whose entry lies
    uint64_t dlopen;
    uint64_t entry; // so far from its begin
    uint64_t stack;
    uint64_t saved;
    uint64_t path;
    uint64_t argument;
    int64_t result;
    uint64_t done;                                   // 1: the call has returned
    uint64_t create;                                 // pthread_create(), 0: no other thread
    uint64_t prepare, set_detached, set_stack;       // pthread_attr_...()
    uint64_t thread;                                 // that was created; 0: none yet
    uint64_t handle;                                 // its name for libc
    uint64_t ticks;                                  // the signals of the agent's clocks
    uint64_t no_time[2];                             // a struct timespec
    uint64_t process, self;                          // of the thread that is led
    unsigned char attributes[128], signal_info[128]; // of libc and of the kernel
};

// Results where the agent was not called.
#define INJECTED_NOT_LOADED (-80)
#define INJECTED_NO_THREAD (-81)

extern const unsigned char injected_code[], injected_code_end[];

#endif
