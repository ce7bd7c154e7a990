// SPDX-License-Identifier: MIT
// Every way to end.

#include "common.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

NOIPA void work_before_end(void)
{
    while (thread_cpu_ns() < 200000000u)
        sink += burn(1, 100);
}

static void at_exit(void)
{
    printf("at exit\n");
}

static int run_return(void)
{
    return 3;
}

static int run_exit(void)
{
    exit(4);
}

static int run_immediate(void)
{
    fflush(stdout);
    _exit(5);
}

static int run_quick(void)
{
    fflush(stdout);
    quick_exit(6);
}

static int run_abort(void)
{
    fflush(stdout);
    abort();
}

static int run_segv(void)
{
    fflush(stdout);
    int *volatile nowhere = (int *)16;
    *nowhere = 1;
    return 0;
}

static int run_kill(void)
{
    fflush(stdout);
    kill(getpid(), SIGKILL);
    return 0;
}

static int run_terminate(void)
{
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}

static int run_trap(void)
{
    fflush(stdout);
    __asm__ volatile("int3");
    return 0;
}

static void *exit_from_thread(void *unused)
{
    (void)unused;
    work_before_end();
    exit(7);
}

static int run_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"return", run_return},       {"exit", run_exit},
                                        {"immediate", run_immediate}, {"quick", run_quick},
                                        {"abort", run_abort},         {"segv", run_segv},
                                        {"kill", run_kill},           {"trap", run_trap},
                                        {"terminate", run_terminate}, {"thread", run_thread}};
    atexit(at_exit);
    work_before_end();
    return RUN_MODE(modes);
}
