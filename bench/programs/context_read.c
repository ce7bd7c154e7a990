// SPDX-License-Identifier: MIT
// What it costs to read the calling context: nanoseconds a read, the least of some rounds, and the same loop without it. Below
// a chain of calls, which have numbers by then, or below a recursion, which is kept on ccStack.
//
//   context_read chain | recursion

#include "cairn.h"
#include <stdio.h>
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

static void tell(void)
{
    double best = 1e9, empty = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double one = read_all(), other = read_nothing();
        best = one < best ? one : best;
        empty = other < empty ? other : empty;
    }
    struct cairn_context context = cairn_context();
    printf("{\"ns\": %.3f, \"empty_ns\": %.3f, \"known\": %s}\n", best, empty, context.handle ? "true" : "false");
}

__attribute__((noipa)) static void recurse(int depth)
{
    if (depth > 0)
        recurse(depth - 1);
    else
        tell();
    sink++; // no tail call
}

#define LINK(name, next)                                                                           \
    __attribute__((noipa)) static void name(int last)                                              \
    {                                                                                              \
        next(last);                                                                                \
        sink++;                                                                                    \
    }

__attribute__((noipa)) static void end(int last)
{
    if (last)
        tell();
    sink++;
}
LINK(link9, end)
LINK(link8, link9)
LINK(link7, link8)
LINK(link6, link7)
LINK(link5, link6)
LINK(link4, link5)
LINK(link3, link4)
LINK(link2, link3)
LINK(link1, link2)

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == 'r')
        recurse(20);
    // Often enough for a new encoding to be worth it.
    for (int i = 0; argc > 1 && argv[1][0] == 'c' && i <= 300000; i++)
        link1(i == 300000);
    return 0;
}
