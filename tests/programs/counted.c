// SPDX-License-Identifier: MIT
// Things that the kernel counts, pages that are touched and waits, in known places. Each thread says how
// often the kernel has counted for it.

#include "common.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, FEW = 500, MANY = 4500, THREADS = 3, SLEEPS = 40 };

NOIPA void touch_pages(char *memory, int pages)
{
    for (int i = 0; i < pages; i++)
        ((volatile char *)memory)[(long)i * PAGE] = 1;
    NO_TAIL_CALL();
}

NOIPA void touch_few(char *memory)
{
    touch_pages(memory, FEW);
    NO_TAIL_CALL();
}

NOIPA void touch_many(char *memory)
{
    touch_pages(memory, MANY);
    NO_TAIL_CALL();
}

NOIPA void sleep_often(void)
{
    const struct timespec moment = {.tv_nsec = 200000};
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&moment, NULL);
    NO_TAIL_CALL();
}

static void *work(void *unused)
{
    const size_t bytes = (size_t)(FEW + MANY) * PAGE;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rusage before, after;
    CHECK(memory != MAP_FAILED && !madvise(memory, bytes, MADV_NOHUGEPAGE));
    getrusage(RUSAGE_THREAD, &before);
    touch_few(memory);
    touch_many(memory + (long)FEW * PAGE);
    sleep_often();
    getrusage(RUSAGE_THREAD, &after);
    printf("%ld %ld\n", after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
           after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw);
    munmap(memory, bytes);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    setvbuf(stdout, NULL, _IOLBF, 0);
    work(NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
