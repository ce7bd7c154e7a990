// SPDX-License-Identifier: MIT
// Prints what a program can see of itself: the profiler must not show.

#include "common.h"
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

static int count_tasks(void)
{
    DIR *directory = opendir("/proc/self/task");
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void print_environment(void)
{
    for (char **variable = environ; *variable; variable++)
        printf("environment: %s\n", *variable);
    printf("preload: %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "(none)");
}

// What the kernel tells the program, where it has put it: behind the environment.
static void print_auxiliary(char **argv, int argc)
{
    char **behind = argv + argc + 1;
    while (*behind)
        behind++;
    for (const Elf64_auxv_t *entry = (const void *)(behind + 1); entry->a_type != AT_NULL; entry++)
        if (entry->a_type != AT_IGNORE)
            printf("auxiliary: %lu%s\n", (unsigned long)entry->a_type,
                   entry->a_un.a_val == getauxval(entry->a_type) ? "" : ", wrong");
}

static void print_state(void)
{
    printf("tasks: %d\n", count_tasks());
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0);
    printf("alternate stack: %d\n", stack.ss_flags);
    struct itimerval interval;
    for (int timer = ITIMER_REAL; timer <= ITIMER_PROF; timer++) {
        CHECK(getitimer(timer, &interval) == 0);
        printf("timer %d: %ld\n", timer, interval.it_value.tv_sec + interval.it_value.tv_usec);
    }
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        CHECK(getrlimit(resource, &limit) == 0);
        printf("limit %d: %llu\n", resource, (unsigned long long)limit.rlim_cur);
    }
    int descriptor = open("/dev/null", O_RDONLY);
    printf("descriptor: %d\n", descriptor);
    close(descriptor);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    printf("errno: %d\n", errno);
}

static void *look(void *unused)
{
    burn(1, 50000);
    print_state();
    return unused;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        printf("argument: %s\n", argv[i]);
    print_environment();
    print_auxiliary(argv, argc);
    print_state();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, NULL) == 0);
    pthread_join(thread, NULL);
    return 0;
}
