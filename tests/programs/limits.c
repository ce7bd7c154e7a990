// SPDX-License-Identifier: MIT
// Programs that close everything, or have nothing left.

#include "common.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

NOIPA void limit_work(int value)
{
    sink += burn((uint64_t)value, 200);
    NO_TAIL_CALL();
}

static NOIPA void *limit_thread(void *argument)
{
    for (int i = 0; i < 50; i++)
        limit_work(i);
    return argument;
}

static void in_thread(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, limit_thread, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    printf("thread: %s\n", strerror(error));
}

static void list_descriptors(void)
{
    printf("open:");
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        if (fcntl(descriptor, F_GETFD) >= 0)
            printf(" %d", descriptor);
    printf("\n");
}

// What a program sees of its own descriptors, by asking each and by reading the directory.
static int run_numbers(void)
{
    list_descriptors();
    int first = open("/dev/null", O_RDONLY), second = dup(first);
    printf("new: %d %d\n", first, second);
    limit_thread(NULL);
    in_thread();
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    printf("pipe: %d %d\n", pipes[0], pipes[1]);
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    printf("entries: %d\n", count);
    return 0;
}

static int run_close_all(void)
{
    for (int descriptor = 3; descriptor < 20000; descriptor++)
        close(descriptor);
    for (int i = 0; i < 5; i++)
        printf("opened: %d\n", open("/dev/null", O_RDONLY));
    limit_thread(NULL);
    in_thread();
    syscall(SYS_close_range, 3, ~0u, 0);
    for (int i = 0; i < 3; i++)
        printf("opened again: %d\n", open("/dev/zero", O_RDONLY));
    in_thread();
    for (int i = 0; i < 3; i++)
        limit_thread(NULL);
    // Descriptors that the program believes its own must not be ours.
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        dup2(1, descriptor);
    limit_thread(NULL);
    in_thread();
    closefrom(3);
    printf("opened at last: %d\n", open("/dev/null", O_RDONLY));
    return 0;
}

static int run_descriptor_limit(void)
{
    struct rlimit limit = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        count++;
    printf("opened %d: %s\n", count, strerror(errno));
    limit_thread(NULL);
    in_thread();
    pid_t pid = fork();
    if (pid == 0) {
        limit_thread(NULL);
        _exit(open("/dev/null", O_RDONLY) < 0 ? 5 : 6);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("child %d\n", status >> 8);
    return 0;
}

// Takes memory until there is none, works, gives it back, works.
static int run_memory_limit(void)
{
    struct rlimit limit = {(rlim_t)2 << 30, (rlim_t)2 << 30};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    struct block {
        struct block *next;
    } *blocks = NULL, *block;
    int count = 0;
    while ((block = malloc(1 << 20))) {
        block->next = blocks;
        blocks = block;
        count++;
    }
    printf("exhausted: %s\n", strerror(errno));
    CHECK(count > 256);
    limit_thread(NULL);
    pthread_t thread;
    printf("thread: %s\n", strerror(pthread_create(&thread, NULL, limit_thread, NULL)));
    while ((block = blocks)) {
        blocks = block->next;
        free(block);
    }
    in_thread();
    limit_thread(NULL);
    return 0;
}

// For limits that were set before the program began.
static int run_work(void)
{
    char *memory = malloc(16 << 20);
    CHECK(memory != NULL);
    memset(memory, 1, 16 << 20);
    limit_thread(NULL);
    in_thread();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"numbers", run_numbers},
                                        {"close-all", run_close_all},
                                        {"descriptor-limit", run_descriptor_limit},
                                        {"memory-limit", run_memory_limit},
                                        {"work", run_work}};
    return RUN_MODE(modes);
}
