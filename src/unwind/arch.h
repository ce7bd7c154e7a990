// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_ARCH_H
#define CAIRN_UNWIND_ARCH_H

// All that the unwinder knows of a processor. One folder implements it: x86_64/.

#include "unwind/unwind.h"
#include <stddef.h>

#if defined(__x86_64__)
enum {
    ARCH_FP = 6,
    ARCH_SP = 7,
    ARCH_RA = 16,
    ARCH_TRACKED = 8, // registers whose rules are followed: those that a call preserves, and the RA
    ARCH_FP_SLOT = 1, // the index of the frame pointer among them
    ARCH_SP_SLOT = 2, // that of the stack pointer, which is the CFA if nothing is said
    ARCH_RA_SLOT = 7, // that of the return address: the last
    ARCH_RA_OFFSET = -8, // where a call leaves the return address, from the CFA
    ARCH_CALL_MOST = 7,  // bytes of the longest call instruction
    ARCH_PATTERN = 16,   // bytes of code that arch_is_sigreturn and arch_guess_slot look at
};
#else
#error "this processor needs its own arch.h constants and its own <arch>.c"
#endif

#define ARCH_ALL_KNOWN ((UINT32_C(1) << UNWIND_REGISTERS) - 1)

// The DWARF number of the n-th tracked register, and back (-1: not tracked).
extern const unsigned char arch_tracked[ARCH_TRACKED];
int arch_tracked_slot(uint64_t reg);

// A register that may hold the result of a function: saved only by code that returns elsewhere.
static inline bool arch_is_result(uint64_t reg)
{
    return reg <= 1;
}

// Where a ucontext_t keeps a register, in bytes from its start.
size_t arch_context_offset(unsigned reg);

// All of them at once, by their DWARF numbers.
void arch_context_registers(const void *ucontext, uintptr_t registers[UNWIND_REGISTERS]);

// True if the bytes before `end` are a call instruction; `start` is as far back as may be read.
bool arch_follows_call(const unsigned char *start, const unsigned char *end);

// Where a call that ends at `end` leads, of which ARCH_CALL_MOST bytes can be read; 0: it does not
// say itself.
uintptr_t arch_call_target(const unsigned char *end);

// True if the code is the system call that ends a signal handler, from its first instruction.
bool arch_is_sigreturn(const unsigned char *code, size_t bytes);
#define ARCH_SIGRETURN_SECOND 7 // the distance of its second instruction from the first

// For interrupted code without a table: where the return address must be, in words from the stack
// pointer, if the instructions around pc show it (first of a function, its prologue, a return); -1
// if not. *saved_fp: the frame pointer was pushed below it.
int arch_guess_slot(const unsigned char *start, const unsigned char *pc, const unsigned char *end,
                    bool *saved_fp);

// True if the processor keeps return addresses a second time, out of our reach (a shadow stack):
// then no return address may be replaced.
bool arch_protects_returns(void);

// Handlers find the processor as the interrupted code has it, and that may have asked for a trap at
// what is not aligned, to find out what the processor can. From here on there is none; the
// interrupted code gets its own back.
void arch_allow_unaligned(const void *ucontext);

// The same for code of ours that the program runs without a signal, for a while: returns what
// arch_restore_flags() takes.
uint64_t arch_begin_unaligned(void);
void arch_restore_flags(uint64_t flags);

// True if the interrupted code has just made a system call: the signal may have come before its
// end.
bool arch_is_after_system_call(const void *ucontext);

// False if the interrupted code surely was in no system call. Signal-safe.
bool arch_may_be_in_system_call(const void *ucontext);

// The number of the system call that the interrupted code has just made, or is about to make once
// more. As many bytes of code before the interrupted instruction are `readable`. Signal-safe.
enum { ARCH_CALL_NONE = -2, ARCH_CALL_UNKNOWN = -1 };
long arch_system_call(const void *ucontext, size_t readable);

// True if the interrupted code stands at `pc`, or stood there before a call was taken back that is
// to be made once more. Signal-safe.
bool arch_was_interrupted_at(const void *ucontext, uintptr_t pc);

// The number that is loaded before the instruction of a call; ARCH_CALL_UNKNOWN if the code around
// it does not show it. Signal-safe.
long arch_coded_number(const unsigned char *call, size_t readable);

// The effect of a signal on the system call that it interrupted.
enum arch_interruption {
    ARCH_NO_CALL,    // there was none, or it is complete
    ARCH_RESTARTING, // the code makes the call once more when the handler returns (SA_RESTART); a
                     // call that a loop is about to make looks the same now and then
    ARCH_FAILING,    // the call fails with EINTR
};
enum arch_interruption arch_interruption(const void *ucontext);

// The number of a call that is restarted.
long arch_restarted_call(const void *ucontext);

// An argument of a call that is restarted, or has failed; the first is 0.
unsigned long arch_call_argument(const void *ucontext, unsigned index);

// Lets a call that would be restarted fail with EINTR.
void arch_fail_call(void *ucontext);

// The number of an interrupted call by the code around it, where no register has it: the call has
// failed, or the kernel restarts it in a way of its own (SYS_restart_syscall). -1 if it is not
// known, or is another one than expected (-1: any).
long arch_coded_call(const void *ucontext, long expected);

// Lets the interrupted code make that call once more, with all its arguments.
void arch_repeat_call(void *ucontext, long number);

// The stack pointer that a longjmp() to this jmp_buf brings back.
uintptr_t arch_jump_goal(const void *buffer);

#endif
