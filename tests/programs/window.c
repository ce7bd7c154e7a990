// SPDX-License-Identifier: MIT
// Calls for two seconds: outer() once, which calls middle() as often as it says at the end, which
// calls leaf() ten times. It also says when outer() was called, by the monotonic clock.

#include "common.h"

static volatile unsigned long sink;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

NOIPA void leaf(void)
{
    sink++;
}

NOIPA void middle(void)
{
    for (int i = 0; i < 10; i++)
        leaf();
}

NOIPA void outer(void)
{
    const double begun = seconds(), end = begun + 2;
    unsigned long rounds = 0;
    for (; seconds() < end; rounds++)
        middle();
    printf("%lu %.6f\n", rounds, begun);
}

int main(void)
{
    outer();
    return 0;
}
