// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_COMMON_H
#define CAIRN_TESTS_COMMON_H

// What the test programs share: work of a known amount, and checks that end the program loudly.
//
// Functions that a test looks for in the tree are NOIPA: one function in the source is one function
// in the binary, with the calls that the source shows.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __clang__
#define NOIPA __attribute__((noinline))
#else
#define NOIPA __attribute__((noipa))
#endif

// Ends the program with a message if something is not as it must be.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _Exit(99);                                                                             \
        }                                                                                          \
    } while (0)

// Keeps the compiler from turning the call before it into a jump.
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

// A few microseconds of pure computation per unit, the same on every run. No calls, no memory.
static NOIPA uint64_t burn(uint64_t seed, unsigned units)
{
    uint64_t value = seed | 1;
    for (unsigned i = 0; i < units * 1000u; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    return value;
}

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

// Small deterministic random numbers.
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

struct mode {
    const char *name;
    int (*run)(void);
};

// Runs the mode that the first argument names.
static inline int run_mode(const struct mode *modes, size_t count, int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < count; i++) {
        if (strcmp(modes[i].name, argv[1]) == 0) {
            int status = modes[i].run();
            NO_TAIL_CALL();
            return status;
        }
    }
    fprintf(stderr, "usage: %s MODE\n", argv[0]);
    return 2;
}

#define RUN_MODE(modes) run_mode(modes, sizeof(modes) / sizeof *(modes), argc, argv)

#endif
