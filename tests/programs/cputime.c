// SPDX-License-Identifier: MIT
// Threads that compute, live in system calls, or do both, and then say what the kernel charged
// them. Prints "NAME NANOSECONDS" for each thread, and the process's rusage as "rusage".

#include "common.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t share_ns = 300000000;
static volatile uint64_t sink;

NOIPA void compute(void)
{
    while (thread_cpu_ns() < share_ns)
        sink += burn(1, 10);
}

// Long system calls: many samples fall into one.
NOIPA void long_calls(void)
{
    char *memory = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero >= 0);
    while (thread_cpu_ns() < share_ns)
        CHECK(read(zero, memory, 4 << 20) > 0); // less than all if a signal comes
    close(zero);
    munmap(memory, 4 << 20);
}

NOIPA void short_calls(void)
{
    while (thread_cpu_ns() < share_ns)
        for (int i = 0; i < 1000; i++)
            getppid();
}

NOIPA void page_faults(void)
{
    while (thread_cpu_ns() < share_ns) {
        char *memory =
            mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < 8 << 20; i += 4096)
            memory[i] = 1;
        munmap(memory, 8 << 20);
    }
}

struct worker {
    const char *name;
    void (*function)(void);
    uint64_t used;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    worker->function();
    worker->used = thread_cpu_ns();
    return NULL;
}

int main(void)
{
    struct worker workers[] = {{.name = "compute", .function = compute},
                               {.name = "long_calls", .function = long_calls},
                               {.name = "short_calls", .function = short_calls},
                               {.name = "page_faults", .function = page_faults}};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        printf("%s %llu\n", workers[i].name, (unsigned long long)workers[i].used);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("rusage %lld\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
                                (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL);
    return 0;
}
