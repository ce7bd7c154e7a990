// SPDX-License-Identifier: MIT
// A handler that jumps, within itself or out of it, interrupts a call, and the return from it, at
// one instruction after another: of the function that calls, and of whatever a profiler has put
// between the two. Another process steps through them.
//
//   interrupted alone|threads within|out      exits with 77 if nobody may trace here

#include "common.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AROUND = 160 }; // instructions that are interrupted

// Long enough for samples.
static NOIPA uint64_t burn_for_samples(uint64_t seed)
{
    const uint64_t end = thread_cpu_ns() + 500000;
    while (thread_cpu_ns() < end)
        seed = burn(seed, 10);
    return seed;
}

// ---- the process that is interrupted

static sigjmp_buf back;
static bool with_threads, jumps_out;

static NOIPA void jump(void)
{
    siglongjmp(back, 1);
}

static void on_signal(int signal)
{
    (void)signal;
    if (jumps_out || !sigsetjmp(back, 1))
        jump();
}

// Both are called through pointers, which a profiler cannot number with other threads about.
typedef uint64_t (*callee)(uint64_t value);

static NOIPA uint64_t works(uint64_t value)
{
    return burn_for_samples(value);
}

static NOIPA uint64_t returns(uint64_t value)
{
    return value + 1;
}

static callee volatile called;
static uint64_t (*volatile call)(uint64_t value);

static long process;
extern char stopped[];

// Without a call, so that the next instructions are those of one.
static inline __attribute__((always_inline)) void stop(void)
{
    long result = SYS_tgkill;
    __asm__ volatile("syscall\n\t"
                     ".globl stopped\n"
                     "stopped:"
                     : "+a"(result)
                     : "D"(process), "S"(process), "d"(SIGSTOP)
                     : "rcx", "r11", "memory");
}

static NOIPA uint64_t begin(uint64_t value)
{
    stop();
    value = called(value);
    NO_TAIL_CALL();
    return burn_for_samples(value);
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static int be_interrupted(void)
{
    pthread_t company;
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    if (with_threads)
        CHECK(!pthread_create(&company, NULL, wait_for_ever, NULL));
    process = getpid();
    call = begin;
    uint64_t sum = 0;
    for (unsigned i = 0;; i++) {
        called = i % 2 ? returns : works;
        if (!jumps_out || !sigsetjmp(back, 1))
            sum += call(i);
        else
            sum += burn_for_samples(i);
    }
    return sum == 0;
}

// ---- the one that interrupts it

static pid_t other;

// Waits for it to stop; what it would have got. 0: it was a step.
static int wait_for_stop(void)
{
    int status;
    siginfo_t info;
    CHECK(waitpid(other, &status, 0) == other && WIFSTOPPED(status));
    const int signal = WSTOPSIG(status);
    if (signal == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, other, NULL, &info) &&
        info.si_code == TRAP_TRACE)
        return 0;
    return signal;
}

// Of the profiler's signals, those that are no traps in the code are dropped meanwhile.
static void step(void)
{
    int signal = 0;
    siginfo_t info;
    do {
        CHECK(!ptrace(PTRACE_SINGLESTEP, other, NULL, (void *)(intptr_t)signal));
        signal = wait_for_stop();
        if (signal && (ptrace(PTRACE_GETSIGINFO, other, NULL, &info) || info.si_code != SI_KERNEL))
            signal = 0;
    } while (signal);
}

// Goes on to the next SIGSTOP; all others are delivered.
static void go_on(int signal)
{
    do {
        CHECK(!ptrace(PTRACE_CONT, other, NULL, (void *)(intptr_t)signal));
        signal = wait_for_stop();
    } while (signal != SIGSTOP);
}

static void interrupt_after(unsigned instructions)
{
    struct user_regs_struct registers;
    // Not in a handler of the profiler, which has come at the same time: a step would be a signal
    // that is blocked there.
    while (!ptrace(PTRACE_GETREGS, other, NULL, &registers) &&
           registers.rip != (uintptr_t)stopped) {
        go_on(0);
        go_on(0);
    }
    for (unsigned i = 0; i < instructions; i++)
        step();
    go_on(SIGUSR1);
}

int main(int argc, char **argv)
{
    with_threads = argc > 1 && !strcmp(argv[1], "threads");
    jumps_out = argc > 2 && !strcmp(argv[2], "out");
    other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        return be_interrupted();
    }
    int status;
    CHECK(waitpid(other, &status, 0) == other);
    if (!WIFSTOPPED(status))
        return WEXITSTATUS(status);
    CHECK(!ptrace(PTRACE_SETOPTIONS, other, NULL, (void *)PTRACE_O_EXITKILL));
    // Some rounds in which all is met.
    for (unsigned i = 0; i < 8; i++)
        go_on(0);
    for (unsigned i = 0; i < 2 * AROUND; i++)
        interrupt_after(i / 2);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    return 0;
}
