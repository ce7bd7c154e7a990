// SPDX-License-Identifier: MIT
// Threads that the kernel treats in an odd way, because the program has asked for it: without the
// time stamp counter, with system calls that become signals, and with nothing of their own but a
// stack.

#include "common.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

static volatile uint64_t sink;

NOIPA void free_work(void)
{
    for (int i = 0; i < 40; i++)
        sink += burn((uint64_t)i, 300);
    NO_TAIL_CALL();
}

NOIPA void odd_work(void)
{
    for (int i = 0; i < 12000; i++)
        sink += burn((uint64_t)i, 1);
    NO_TAIL_CALL();
}

static void *work_in_thread(void *unused)
{
    odd_work();
    return unused;
}

static void set_counter(int mode)
{
    if (prctl(PR_SET_TSC, mode)) {
        perror("PR_SET_TSC");
        _exit(98);
    }
}

// Reading the counter is the end of it. libc does so for clock_gettime().
static int run_no_counter(void)
{
    pthread_t thread;
    free_work();
    set_counter(PR_TSC_SIGSEGV);
    odd_work();
    CHECK(!pthread_create(&thread, NULL, work_in_thread, NULL) && !pthread_join(thread, NULL));
    set_counter(PR_TSC_ENABLE);
    free_work();
    return 0;
}

static volatile char selector;
static volatile sig_atomic_t dispatched;

#define DISPATCHED_CALL 777777 // that the kernel does not have

// Answers the calls that it knows. All others are somebody else's, and the end.
static void answer_call(int number, siginfo_t *info, void *context)
{
    (void)number;
    selector = 0; // so that returning from here is no such call
    if (info->si_syscall != DISPATCHED_CALL)
        _exit(97);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = ++dispatched;
}

static long call_odd(void)
{
    long result = DISPATCHED_CALL;
    selector = 1;
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    return result;
}

static void set_dispatch(unsigned long mode)
{
    volatile char *byte = mode == PR_SYS_DISPATCH_ON ? &selector : NULL;
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, 0, 0, byte)) {
        perror("PR_SET_SYSCALL_USER_DISPATCH");
        _exit(98);
    }
}

// System calls of other systems are made by code that is not told from ours: the kernel sends a
// signal for each while the selector says so.
static int run_dispatched(void)
{
    struct sigaction action = {.sa_sigaction = answer_call, .sa_flags = SA_SIGINFO};
    CHECK(!sigaction(SIGSYS, &action, NULL));
    free_work();
    set_dispatch(PR_SYS_DISPATCH_ON);
    for (int i = 1; i <= 10; i++)
        CHECK(call_odd() == i);
    selector = 1;
    odd_work();
    selector = 0;
    set_dispatch(PR_SYS_DISPATCH_OFF);
    free_work();
    printf("%d calls\n", (int)dispatched);
    return 0;
}

// All but those of a page that nothing is on.
static int run_spared(void)
{
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 4096, ~0ul - 4096, &selector)) {
        perror("PR_SET_SYSCALL_USER_DISPATCH");
        _exit(98);
    }
    selector = 1;
    odd_work();
    selector = 0;
    set_dispatch(PR_SYS_DISPATCH_OFF);
    return 0;
}

#define SHARING 16
#define SHARED_BYTES 65536

static _Atomic int begun, ended;

NOIPA int leaf(int value)
{
    return value * 3;
}

NOIPA int inner(int value)
{
    return leaf(value) + leaf(value + 1);
}

// Each time from elsewhere on the stack: such calls are not known.
NOIPA int call_below(int bytes)
{
    volatile char *room = __builtin_alloca((size_t)bytes);
    room[0] = (char)bytes;
    return inner(bytes) + room[0];
}

static int shared_body(void *argument)
{
    volatile int sum = 0;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < SHARING)
        __builtin_ia32_pause();
    for (int i = 0; i < 20000; i++)
        sum = sum + call_below(i * 16 % 8192 + 16);
    atomic_fetch_add(&ended, 1);
    syscall(SYS_exit, (int)(intptr_t)argument); // of this thread alone
    return 0;
}

// Threads by clone() alone, which have the thread-local variables of the one that makes them.
static int run_sharing(void)
{
    for (int i = 0; i < SHARING; i++) {
        char *stack =
            mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED);
        CHECK(
            clone(shared_body, stack + SHARED_BYTES,
                  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
                  NULL) > 0);
    }
    while (atomic_load(&ended) < SHARING)
        __builtin_ia32_pause();
    for (int i = 0; i < 20000; i++)
        sink += (uint64_t)call_below(i * 16 % 8192 + 16);
    printf("%d threads\n", atomic_load(&ended));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"no-counter", run_no_counter},
        {"dispatched", run_dispatched},
        {"spared", run_spared},
        {"sharing", run_sharing},
    };
    return RUN_MODE(modes);
}
