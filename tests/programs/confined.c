// SPDX-License-Identifier: MIT
// Programs that forbid themselves system calls (seccomp), and whoever lives in them: what is not on
// their list is their end.

#include "common.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile uint64_t sink;

NOIPA void free_work(void)
{
    for (int i = 0; i < 20; i++)
        sink += burn((uint64_t)i, 2500);
    NO_TAIL_CALL();
}

NOIPA void confined_work(void)
{
    for (int i = 0; i < 20; i++)
        sink += burn((uint64_t)i, 2500);
    NO_TAIL_CALL();
}

#define ALLOW(name)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// As strict mode has it, and what it takes to exit as a C program does.
static const struct sock_filter few[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(write),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(futex),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

// What a sample takes, but not what a clock does, nor new kinds of advice on pages.
static const struct sock_filter some[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 5, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 2),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 22, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

// Nobody may ask which signals are pending.
static const struct sock_filter no_questions[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigpending, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

#define PROGRAM(steps)                                                                             \
    {                                                                                              \
        .len = sizeof steps / sizeof *steps, .filter = (struct sock_filter *)steps                 \
    }

// Without libc, which may want to do more.
__attribute__((noreturn)) static void end(int status)
{
    static const char said[] = "confined\n";
    CHECK(write(1, said, sizeof said - 1) == sizeof said - 1);
    syscall(SYS_exit, status);
    __builtin_unreachable();
}

static int run_strict(void)
{
    free_work();
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    confined_work();
    end(3);
}

static int run_few(void)
{
    struct sock_fprog program = PROGRAM(few);
    free_work();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    confined_work();
    end(4);
}

static _Atomic int go;

static void *work_in_thread(void *argument)
{
    free_work();
    while (!go)
        sink += burn(1, 10);
    do
        confined_work();
    while (argument); // its end would take more than it may do
    return argument;
}

// All threads at once, by a number.
static int run_all_threads(void)
{
    struct sock_fprog program = PROGRAM(few);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work_in_thread, (void *)few) == 0);
    free_work();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    go = 1;
    confined_work();
    confined_work();
    static const char said[] = "all\n";
    CHECK(write(1, said, sizeof said - 1) == sizeof said - 1);
    syscall(SYS_exit_group, 5);
    return 1;
}

// Threads begin, and the program ends, as ever.
static int run_some(void)
{
    struct sock_fprog program = PROGRAM(some);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    pthread_t thread;
    go = 1;
    CHECK(pthread_create(&thread, NULL, work_in_thread, NULL) == 0);
    confined_work();
    CHECK(pthread_join(thread, NULL) == 0);
    puts("some");
    return 6;
}

// As those who confine others do it.
static int run_exec(void)
{
    struct sock_fprog program = PROGRAM(some);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    free_work();
    execl("/bin/sh", "sh", "-c", "echo next; exit 8", NULL);
    return 1;
}

// What the kernel does not take changes nothing.
static int run_refused(void)
{
    struct sock_filter wrong[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), {0}};
    struct sock_fprog program = PROGRAM(wrong), none = {0};
    wrong[1].code = 0xffff;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8) == -1 && errno == EFAULT);
    CHECK(prctl(PR_SET_SECCOMP, 77) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    CHECK(prctl(PR_GET_SECCOMP) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    confined_work();
    confined_work();
    puts("refused");
    return 7;
}

static int ends[2];

static void write_byte(int signal)
{
    (void)signal;
    CHECK(write(ends[1], "", 1) == 1);
}

// Calls that signals interrupt, and that go on.
static int run_signals(void)
{
    struct sock_fprog program = PROGRAM(no_questions);
    const struct sigaction action = {.sa_handler = write_byte, .sa_flags = SA_RESTART};
    const struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    CHECK(pipe(ends) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    char byte;
    for (int i = 0; i < 500; i++)
        CHECK(read(ends[0], &byte, 1) == 1);
    puts("signals");
    return 9;
}

// No reading of the processor's counter, which clocks are told by.
static int run_counter(void)
{
    free_work();
    CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    confined_work();
    puts("counter");
    return 10;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"strict", run_strict},   {"few", run_few},        {"all-threads", run_all_threads},
        {"some", run_some},       {"exec", run_exec},      {"refused", run_refused},
        {"signals", run_signals}, {"counter", run_counter}};
    return run_mode(modes, sizeof modes / sizeof *modes, argc, argv);
}
