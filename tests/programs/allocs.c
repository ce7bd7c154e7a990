// SPDX-License-Identifier: MIT
// Allocates in ways that are known by block and byte: allocs MODE.

#include "common.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BARRIER(pointer) __asm__ volatile("" : "+r"(pointer)::"memory")

// The frame stays: what follows the call keeps it from being a jump.
static NOIPA void *take(size_t size)
{
    void *block = malloc(size);
    BARRIER(block);
    return block;
}

static NOIPA void *by_first(size_t size)
{
    void *block = take(size);
    BARRIER(block);
    return block;
}

static NOIPA void *by_second(size_t size)
{
    void *block = take(size);
    BARRIER(block);
    return block;
}

static NOIPA void leak(void)
{
    for (int i = 0; i < 7; i++) {
        void *block = malloc(300);
        BARRIER(block);
    }
}

// For so many tenths of a second: a table that stays, a leak that grows, and a cache of which the
// oldest block gives way.
static NOIPA void *keep_table(void)
{
    void *block = malloc(100000);
    BARRIER(block);
    return block;
}

static NOIPA void leak_steadily(void)
{
    void *block = malloc(1000);
    BARRIER(block);
}

static NOIPA void *cache(void *oldest)
{
    free(oldest);
    void *block = malloc(5000);
    BARRIER(block);
    return block;
}

static NOIPA void grow_old(int tenths)
{
    void *table = keep_table(), *cached[2] = {NULL, NULL};
    for (int i = 0; i < tenths; i++) {
        leak_steadily();
        cached[i % 2] = cache(cached[i % 2]);
        usleep(100000);
    }
    BARRIER(table);
}

// 10 + 20 + 40 + ... + 5120 bytes, of which the last block stays until the end.
static NOIPA char *grow(void)
{
    char *block = NULL;
    for (size_t size = 10; size <= 5120; size *= 2) {
        block = realloc(block, size);
        BARRIER(block);
    }
    return block;
}

static NOIPA void every_way(void)
{
    void *blocks[8] = {calloc(3, 100), memalign(64, 100),      aligned_alloc(128, 256),
                       valloc(10),     reallocarray(0, 5, 20), pvalloc(10)};
    if (posix_memalign(&blocks[6], 4096, 77))
        abort();
    blocks[7] = strdup("twelve bytes");
    for (int i = 0; i < 8; i++) {
        BARRIER(blocks[i]);
        free(blocks[i]);
    }
}

static int paths(void)
{
    void *blocks[100];
    for (int i = 0; i < 100; i++)
        blocks[i] = i % 4 ? by_first(1000) : by_second(10);
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    free(grow());
    leak();
    every_way();
    free(NULL);
    return 0;
}

// The peak is when 50 blocks by the second stand beside 10 by the first; before and after it there
// are many, but fewer bytes.
static int peak(void)
{
    void *first[100], *second[50];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            first[i] = by_first(1000);
        for (int i = 10; i < 100; i++)
            free(first[i]);
        for (int i = 0; i < 50; i++)
            second[i] = by_second(round == 1 ? 4000 : 2000 + (size_t)round);
        for (int i = 0; i < 50; i++)
            free(second[i]);
        for (int i = 0; i < 10; i++)
            free(first[i]);
    }
    return 0;
}

#define WORKERS 4
#define EACH 5000
static void *handed[WORKERS][EACH];

static void *worker(void *argument)
{
    void **blocks = argument;
    for (int i = 0; i < EACH; i++) {
        blocks[i] = by_first(16 + (size_t)i % 64);
        if (i % 5 == 0) {
            void *own = by_second(32);
            free(own);
        }
    }
    return NULL;
}

// What the workers allocate is freed by the main thread, but for one in ten.
static int threads(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[WORKERS];
        for (int i = 0; i < WORKERS; i++)
            if (pthread_create(&threads[i], NULL, worker, handed[i]))
                return 1;
        for (int i = 0; i < WORKERS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < WORKERS; i++)
            for (int j = 0; j < EACH; j++)
                if (j % 10)
                    free(handed[i][j]);
    }
    return 0;
}

static int forks(void)
{
    void *inherited[20];
    for (int i = 0; i < 20; i++)
        inherited[i] = by_first(100);
    for (int child = 0; child < 3; child++)
        if (fork() == 0) {
            for (int i = 0; i < 20; i++)
                free(inherited[i]);
            for (int i = 0; i < 10; i++)
                free(by_second(50));
            void *left = by_second(70);
            BARRIER(left);
            _exit(0);
        }
    while (wait(NULL) > 0)
        continue;
    for (int i = 0; i < 20; i++)
        free(inherited[i]);
    return 0;
}

static sigjmp_buf landing;

static void on_signal(int number)
{
    void *block = by_second(500);
    BARRIER(block);
    if (number == SIGUSR2)
        siglongjmp(landing, 1);
}

static NOIPA void interrupt(int number)
{
    raise(number);
    __asm__ volatile("" ::: "memory");
}

static int handlers(void)
{
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    for (int i = 0; i < 10; i++) {
        interrupt(SIGUSR1);
        if (!sigsetjmp(landing, 1))
            interrupt(SIGUSR2);
        free(by_first(40));
    }
    return 0;
}

static NOIPA void *deep(int depth)
{
    void *block = depth ? deep(depth - 1) : by_first(24);
    BARRIER(block);
    return block;
}

static int depths(void)
{
    for (int i = 0; i < 200; i++)
        free(deep(i * 20));
    return 0;
}

static NOIPA int climb(int frames);

static NOIPA int climb_on(int frames)
{
    return frames ? climb(frames - 1) + 1 : 0;
}

static NOIPA int climb(int frames)
{
    return frames ? climb_on(frames - 1) + 1 : 0;
}

// Allocates a lot and calls little, then the other way round.
static int turns(void)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 600000; i++)
            free(i % 4 ? by_first(10) : by_second(20));
        int frames = 0;
        for (int i = 0; i < 100000; i++)
            frames += climb(40);
        if (frames != 4000000)
            return 1;
    }
    return 0;
}

static void check(int holds, const char *what)
{
    if (!holds)
        printf("wrong: %s\n", what);
}

// What an allocator promises is the program's own, whoever looks on.
static int promises(void)
{
    volatile size_t huge = (size_t)1 << 62;
    errno = 0;
    check(!malloc(huge) && errno == ENOMEM, "malloc of too much");
    errno = 0;
    check(!calloc(huge, 8) && errno == ENOMEM, "calloc of too much");
    char *block = malloc(100);
    strcpy(block, "kept");
    errno = 0;
    char *volatile same = block; // the compiler takes it for gone
    check(!realloc(block, huge) && errno == ENOMEM && !strcmp(same, "kept"), "realloc");
    errno = 0;
    check(!reallocarray(same, huge, 16) && errno == ENOMEM, "reallocarray");
    errno = EXDEV;
    void *other = malloc(33), *third = calloc(1, 7);
    free(other);
    free(third);
    check(errno == EXDEV, "errno is left alone");
    other = third = &errno;
    check(posix_memalign(&other, 3, 8) == EINVAL && other == third, "posix_memalign");
    check(posix_memalign(&other, 8192, 8) == 0 && (uintptr_t)other % 8192 == 0, "alignment");
    free(other);
    other = aligned_alloc(256, 512);
    check((uintptr_t)other % 256 == 0, "aligned_alloc");
    free(other);
    third = malloc(24);
    check(malloc_usable_size(third) == 24, "usable size");
    free(third);
    third = realloc(malloc(8), 0);
    check(third == NULL, "realloc to nothing");
    free(same);
    block = calloc(10, 10);
    for (int i = 0; i < 100; i++)
        check(block[i] == 0, "zeroed");
    free(block);
    puts("done");
    return 0;
}

// Blocks that are freed at once, and others.
static int temporary(void)
{
    for (int i = 0; i < 100; i++)
        free(by_first(20)); // at once
    for (int i = 0; i < 50; i++) {
        void *older = by_first(30), *newer = by_second(40);
        free(older); // not the newest
        free(newer); // the newest, still
    }
    free(grow()); // each realloc() but the first frees the newest, and so does free()
    return 0;
}

static NOIPA char *map(size_t bytes)
{
    char *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BARRIER(mapped);
    return mapped;
}

static NOIPA void unmap(char *mapped, size_t bytes)
{
    int result = munmap(mapped, bytes);
    BARRIER(mapped);
    if (result)
        abort();
}

static NOIPA char *remap(char *mapped, size_t bytes, size_t more)
{
    mapped = mremap(mapped, bytes, more, MREMAP_MAYMOVE);
    BARRIER(mapped);
    return mapped;
}

static NOIPA void move_break(intptr_t bytes)
{
    void *before = sbrk(bytes);
    BARRIER(before);
}

// 10 mappings of three pages, of which one grows to five, and another one shrinks to one.
static int mappings(void)
{
    char *mapped[10];
    for (int i = 0; i < 10; i++)
        mapped[i] = map(8192 + 100);
    mapped[0] = remap(mapped[0], 3 * 4096, 5 * 4096);
    mapped[1] = remap(mapped[1], 3 * 4096, 4096);
    for (int i = 2; i < 10; i++)
        unmap(mapped[i], 3 * 4096);
    if (munmap((char *)1, 4096) == 0 || mmap(NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED)
        return 1;
    move_break(65536);
    move_break(-16384);
    return 0;
}

// Many small blocks beside some large ones, of sizes that differ; 1 in 50 stays.
static int mix(void)
{
    enum { ROUNDS = 50000, SMALL = 5 };
    uint32_t random = 1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        void *small[SMALL];
        for (int j = 0; j < SMALL; j++) {
            random = random * 1664525 + 1013904223;
            small[j] = by_first(1 + random % 97 + (random >> 9) % 97);
        }
        void *large = by_second(1000 + random % 8009);
        for (int j = 0; j < SMALL; j++)
            if (i % 50)
                free(small[j]);
        if (i % 50)
            free(large);
    }
    return 0;
}

static int ages(void)
{
    grow_old(60);
    return 0;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"paths", paths},         {"peak", peak},         {"threads", threads},
                 {"forks", forks},         {"handlers", handlers}, {"depths", depths},
                 {"promises", promises},   {"turns", turns},       {"mix", mix},
                 {"temporary", temporary}, {"mappings", mappings}, {"ages", ages}};
    for (size_t i = 0; count > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(arguments[1], modes[i].name))
            return modes[i].run();
    return 2;
}
