// SPDX-License-Identifier: MIT
// What it costs to read the calling context, DEPTH calls below main: nanoseconds a read, the least of some rounds, and the
// same loop without it.
//
//   context_read DEPTH

#include "cairn.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { READS = 200000, ROUNDS = 15 };

static volatile uint64_t sink;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double read_all(void)
{
    const double begin = now();
    for (int i = 0; i < READS; i++) {
        struct cairn_context context = cairn_context();
        sink += context.id ^ context.handle;
    }
    return (now() - begin) / READS;
}

static double read_nothing(void)
{
    const double begin = now();
    for (int i = 0; i < READS; i++)
        sink += (uint64_t)i;
    return (now() - begin) / READS;
}

__attribute__((noipa)) static void descend(int depth)
{
    if (depth > 0) {
        descend(depth - 1);
        sink++; // no tail call
        return;
    }
    double best = 1e9, empty = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double one = read_all(), other = read_nothing();
        best = one < best ? one : best;
        empty = other < empty ? other : empty;
    }
    struct cairn_context context = cairn_context();
    printf("{\"ns\": %.3f, \"empty_ns\": %.3f, \"known\": %s}\n", best, empty, context.handle ? "true" : "false");
}

int main(int argc, char **argv)
{
    descend(argc > 1 ? atoi(argv[1]) : 5);
    return 0;
}
