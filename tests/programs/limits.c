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

static void print_limit(int resource)
{
    struct rlimit limit, other;
    CHECK(getrlimit(resource, &limit) == 0);
    CHECK(prlimit(0, resource, NULL, &other) == 0 && !memcmp(&limit, &other, sizeof limit));
    CHECK(prlimit(getpid(), resource, NULL, &other) == 0 && !memcmp(&limit, &other, sizeof limit));
    CHECK(syscall(SYS_prlimit64, 0, resource, NULL, &other) == 0 &&
          !memcmp(&limit, &other, sizeof limit));
    CHECK(syscall(SYS_getrlimit, resource, &other) == 0 && !memcmp(&limit, &other, sizeof limit));
    printf("limit: %llu %llu\n", (unsigned long long)limit.rlim_cur,
           (unsigned long long)limit.rlim_max);
}

// In pieces of 256 KB, all that there is.
static void take_memory(void)
{
    enum { PIECE = 256 << 10, MOST = 4096 };
    static char *pieces[MOST];
    int count = 0;
    while (count < MOST && (pieces[count] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
        pieces[count++][0] = 1;
    printf("taken: %d\n", count);
    limit_thread(NULL);
    while (count)
        munmap(pieces[--count], PIECE);
}

static void print_error(int result)
{
    printf("%s\n", result ? strerror(errno) : "done");
}

static int wait_for(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// A limit that the program sets, asks for, reaches, changes, and hands on.
static int run_own_limit(int resource, const char *mode)
{
    struct rlimit limit = {96 << 20, 128 << 20};
    print_limit(resource);
    CHECK(setrlimit(resource, &limit) == 0);
    print_limit(resource);
    take_memory();
    in_thread();
    print_error(setrlimit(resource, &(struct rlimit){2, 1}));
    CHECK(prlimit(0, resource, &(struct rlimit){64 << 20, 64 << 20}, &limit) == 0);
    printf("before: %d\n", (int)(limit.rlim_cur >> 20));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        print_limit(resource);
        take_memory();
        CHECK(setuid(65534) == 0 || getuid());
        print_error(setrlimit(resource, &(struct rlimit){64 << 20, 65 << 20}));
        print_error(setrlimit(resource, &(struct rlimit){48 << 20, 64 << 20}));
        take_memory();
        print_limit(resource);
        exit(0);
    }
    printf("child %d\n", wait_for(child));
    fflush(stdout);
    CHECK(syscall(SYS_setrlimit, resource, &(struct rlimit){60 << 20, 60 << 20}) == 0);
    execl("/proc/self/exe", "limits", mode, NULL);
    return 1;
}

static int run_space_limit(void)
{
    return run_own_limit(RLIMIT_AS, "space-limited");
}

static int run_data_limit(void)
{
    return run_own_limit(RLIMIT_DATA, "data-limited");
}

static int run_limited(int resource)
{
    print_limit(resource);
    take_memory();
    return 0;
}

// The kernel goes by the hard limit then.
static int run_no_data(void)
{
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){0, 128 << 20}) == 0);
    return run_limited(RLIMIT_DATA);
}

static int run_space_limited(void)
{
    return run_limited(RLIMIT_AS);
}

static int run_data_limited(void)
{
    return run_limited(RLIMIT_DATA);
}

NOIPA void many_b(int depth);

NOIPA void many_a(int depth)
{
    sink++;
    if (depth) {
        many_a(depth - 1);
        many_b(depth - 1);
    }
    NO_TAIL_CALL();
}

NOIPA void many_b(int depth)
{
    sink += 2;
    if (depth) {
        many_a(depth - 1);
        many_b(depth - 1);
    }
    NO_TAIL_CALL();
}

// Eight million contexts, of which none is hot.
static int run_many_contexts(void)
{
    many_a(22);
    printf("%llu\n", (unsigned long long)sink);
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
                                        {"space-limit", run_space_limit},
                                        {"space-limited", run_space_limited},
                                        {"data-limit", run_data_limit},
                                        {"data-limited", run_data_limited},
                                        {"no-data", run_no_data},
                                        {"many-contexts", run_many_contexts},
                                        {"work", run_work}};
    return RUN_MODE(modes);
}
