// SPDX-License-Identifier: MIT
// Loops that do little but call, and never call themselves: directly, through a pointer to one of
// few functions or of many, and all of that in two threads.
//
//   loops direct|few|many|threads TIMES

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE __attribute__((noipa))

typedef unsigned long (*step_function)(unsigned long);

ALONE static unsigned long leaf(unsigned long x)
{
    return x * 1664525 + 1013904223;
}

// Calls of its own, so not a leaf; and each call site of it is an edge of its own.
ALONE static unsigned long low(unsigned long x)
{
    return leaf(x) + leaf(x + 1);
}

ALONE static unsigned long middle(unsigned long x)
{
    return (low(x) ^ low(x + 2)) + low(x + 3);
}

ALONE static unsigned long direct(unsigned long x)
{
    return middle(x) + middle(x + 4);
}

#define STEP(number)                                                                               \
    ALONE static unsigned long step_##number(unsigned long x)                                      \
    {                                                                                              \
        return low(x + 0x##number);                                                                \
    }
#define STEPS(digit)                                                                               \
    STEP(digit##0)                                                                                 \
    STEP(digit##1)                                                                                 \
    STEP(digit##2)                                                                                 \
    STEP(digit##3)                                                                                 \
    STEP(digit##4)                                                                                 \
    STEP(digit##5)                                                                                 \
    STEP(digit##6)                                                                                 \
    STEP(digit##7)
#define NAMES(digit)                                                                               \
    step_##digit##0, step_##digit##1, step_##digit##2, step_##digit##3, step_##digit##4,           \
        step_##digit##5, step_##digit##6, step_##digit##7

STEPS(0)
STEPS(1)
STEPS(2)
STEPS(3)
STEPS(4)
STEPS(5)
STEPS(6)
STEPS(7)

static const step_function steps[] = {NAMES(0), NAMES(1), NAMES(2), NAMES(3),
                                      NAMES(4), NAMES(5), NAMES(6), NAMES(7)};
enum { FEW = 3, MANY = sizeof steps / sizeof *steps };

ALONE static unsigned long run_direct(unsigned long times)
{
    unsigned long sum = 0;
    while (times-- > 0)
        sum += direct(sum);
    return sum;
}

ALONE static unsigned long run_steps(unsigned long times, unsigned targets)
{
    unsigned long sum = 0;
    while (times-- > 0)
        sum += steps[times % targets](sum);
    return sum;
}

static void *run_all(void *times)
{
    const unsigned long each = *(const unsigned long *)times / 3;
    return (void *)(run_direct(each) + run_steps(each, FEW) + run_steps(each, MANY));
}

static unsigned long run_threads(unsigned long times)
{
    pthread_t threads[2];
    unsigned long sum = 0, half = times / 2;
    for (unsigned i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, run_all, &half) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < 2; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (unsigned long)part;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    const unsigned long times = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    unsigned long sum;
    if (strcmp(kind, "direct") == 0)
        sum = run_direct(times);
    else if (strcmp(kind, "few") == 0)
        sum = run_steps(times, FEW);
    else if (strcmp(kind, "many") == 0)
        sum = run_steps(times, MANY);
    else if (strcmp(kind, "threads") == 0)
        sum = run_threads(times);
    else
        return fputs("usage: loops direct|few|many|threads TIMES\n", stderr), 2;
    printf("%lx\n", sum);
    return 0;
}
