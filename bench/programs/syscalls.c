// SPDX-License-Identifier: MIT
// A program that lives in system calls, in two threads: long reads of /dev/zero in one, many short
// writes to /dev/null and page faults in the other. Then it computes a little.
//
//   syscalls ROUNDS
//
// Prints how much CPU time each thread used by its own account, in nanoseconds.

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned rounds;

static uint64_t used_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

static void *read_long(void *argument)
{
    size_t bytes = 4 << 20;
    char *buffer = malloc(bytes);
    int fd = open("/dev/zero", O_RDONLY);
    for (unsigned i = 0; i < rounds; i++)
        if (read(fd, buffer, bytes) != (ssize_t)bytes)
            abort();
    close(fd);
    free(buffer);
    *(uint64_t *)argument = used_ns();
    return NULL;
}

static void *write_short(void *argument)
{
    int fd = open("/dev/null", O_WRONLY);
    for (unsigned i = 0; i < rounds * 20; i++) {
        for (unsigned k = 0; k < 50; k++)
            if (write(fd, "x", 1) != 1)
                abort();
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *page = 1;
        munmap(page, 4096);
    }
    close(fd);
    *(uint64_t *)argument = used_ns();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    uint64_t used[2] = {0};
    rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    pthread_create(&threads[0], NULL, read_long, &used[0]);
    pthread_create(&threads[1], NULL, write_short, &used[1]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("{\"read_long\": %llu, \"write_short\": %llu}\n", (unsigned long long)used[0],
           (unsigned long long)used[1]);
    return 0;
}
