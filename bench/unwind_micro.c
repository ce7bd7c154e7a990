// SPDX-License-Identifier: MIT
// What a step from a frame to its caller costs: ours, libunwind's cached backtrace, glibc's
// backtrace, and frame pointers. Warm: the same stack again and again. Cold: every pc for the first
// time. All in one run, interleaved; medians.

#define UNW_LOCAL_ONLY
#include "unwind_micro.h"
#include "loadmap/loadmap.h"
#include "unwind/unwind.h"
#include <dlfcn.h>
#include <libunwind.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 25
#define REPEATS 200
#define FRAMES_MOST 1024
#define CHAINS_DEEP 8

static struct unwind_bounds bounds;
static int (*glibc_backtrace)(void **buffer, int size);
static void *buffer[FRAMES_MOST];

static __attribute__((noinline)) int walk_cairn(void)
{
    struct unwind_cursor cursor;
    struct unwind_frame left[16];
    enum verdict verdict;
    int count = 0;
    size_t ran;
    const struct caller_registers caller = unwind_caller_of(__builtin_frame_address(0));
    unwind_start_here(&cursor, &caller, bounds);
    do {
        while (count < FRAMES_MOST - 16 && (ran = unwind_run(&cursor, left, 16)) != 0)
            for (size_t i = 0; i < ran; i++)
                buffer[count++] = (void *)left[i].pc;
        buffer[count++] = (void *)cursor.frame.pc;
    } while (count < FRAMES_MOST && unwind_step(&cursor, &verdict) == UNWIND_OK);
    return count;
}

static __attribute__((noinline)) int walk_libunwind(void)
{
    return unw_backtrace(buffer, FRAMES_MOST);
}

static __attribute__((noinline)) int walk_glibc(void)
{
    return glibc_backtrace(buffer, FRAMES_MOST);
}

static __attribute__((noinline)) int walk_frame_pointer(void)
{
    uintptr_t *frame = __builtin_frame_address(0);
    int count = 0;
    while (count < FRAMES_MOST && (uintptr_t)frame >= bounds.low &&
           (uintptr_t)frame < bounds.high - 16) {
        uintptr_t *next = (uintptr_t *)frame[0];
        buffer[count++] = (void *)frame[1];
        if (next <= frame)
            break;
        frame = next;
    }
    return count;
}

enum { CAIRN, LIBUNWIND, GLIBC, FRAME_POINTER, WALKERS };
static const char *const walker_name[WALKERS] = {"cairn", "libunwind unw_backtrace",
                                                 "glibc backtrace", "frame pointers"};
static int (*const walker[WALKERS])(void) = {walk_cairn, walk_libunwind, walk_glibc,
                                             walk_frame_pointer};

static double result[WALKERS][CHAINS > ROUNDS ? CHAINS : ROUNDS];
static unsigned results;
static int frames[WALKERS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void measure(unsigned which, unsigned repeats)
{
    int count = 0;
    double begin = now();
    for (unsigned i = 0; i < repeats; i++)
        count += walker[which]();
    double cost = now() - begin;
    frames[which] = count / (int)repeats;
    result[which][results] = cost / count;
}

static void measure_warm(void)
{
    for (unsigned which = 0; which < WALKERS; which++)
        walker[which]();
    for (results = 0; results < ROUNDS; results++)
        for (unsigned which = 0; which < WALKERS; which++)
            measure(which, REPEATS);
}

// Whoever comes first pays for bringing the tables into the processor's caches: take turns.
static void measure_cold(void)
{
    for (unsigned i = 0; i < WALKERS; i++)
        measure((results + i) % WALKERS, 1);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void print_results(const char *title)
{
    for (unsigned which = 0; which < WALKERS; which++) {
        qsort(result[which], results, sizeof(double), compare);
        printf("%-32s %-24s %6.1f ns/frame (%d frames)\n", title, walker_name[which],
               result[which][results / 2], frames[which]);
    }
}

// Several chains on top of each other, so that the frames differ all the way.
static const chain_function *deep_chains;
static unsigned level;

static void go_deeper(void)
{
    if (++level < CHAINS_DEEP)
        deep_chains[level](go_deeper);
    else
        measure_warm();
    __asm__ volatile(""); // not a tail call
}

static void run(const char *name, const chain_function *chains)
{
    char title[80];
    snprintf(title, sizeof title, "cold, %s", name);
    for (results = 0; results < CHAINS; results++)
        chains[results](measure_cold);
    print_results(title);
    snprintf(title, sizeof title, "warm, %s", name);
    chains[0](measure_warm);
    print_results(title);
    snprintf(title, sizeof title, "warm and deep, %s", name);
    deep_chains = chains;
    level = 0;
    chains[0](go_deeper);
    print_results(title);
}

int main(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    bounds = (struct unwind_bounds){(uintptr_t)low, (uintptr_t)low + bytes};
    // libunwind has a function of that name too, which comes first in the search order.
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    glibc_backtrace = (int (*)(void **, int))dlsym(libc, "backtrace");
    if (!glibc_backtrace || loadmap_start(NULL) != 0)
        return 1;
    glibc_backtrace(buffer, FRAMES_MOST);
    unw_backtrace(buffer, FRAMES_MOST);
    run("no frame pointer", chains_plain);
    run("frame pointer", chains_frame_pointer);
    return 0;
}
