// SPDX-License-Identifier: MIT
// Every way to end.

#include "common.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
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

// The kernel has something to do when it is over.
static void take_memory(void)
{
    const size_t bytes = (size_t)256 << 20;
    char *memory = malloc(bytes);
    CHECK(memory);
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    sink += (uint64_t)memory[bytes / 2];
}

static int run_memory(void)
{
    take_memory();
    return 8;
}

// One child after the other, each waited for in another way.
static int run_children(void)
{
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            take_memory();
            _exit(i);
        }
        struct rusage usage;
        int status = 0;
        const pid_t ended = i == 0   ? waitpid(child, &status, 0)
                            : i == 1 ? wait(&status)
                            : i == 2 ? wait3(&status, 0, &usage)
                                     : wait4(child, &status, 0, &usage);
        CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == i);
        CHECK(i < 2 || usage.ru_utime.tv_sec + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec > 0);
    }
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    return 9;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"return", run_return}, {"exit", run_exit},     {"immediate", run_immediate},
        {"quick", run_quick},   {"abort", run_abort},   {"segv", run_segv},
        {"kill", run_kill},     {"trap", run_trap},     {"terminate", run_terminate},
        {"thread", run_thread}, {"memory", run_memory}, {"children", run_children}};
    atexit(at_exit);
    work_before_end();
    return RUN_MODE(modes);
}
