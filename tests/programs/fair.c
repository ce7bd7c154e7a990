// SPDX-License-Identifier: MIT
// Phases that do little but call, and others of about the same length that hardly call at all.
// Tells how often each function was called.

#include <stdio.h>

#define NOIPA __attribute__((noipa))
#define ROUNDS 12
#define OFTEN 8000000
#define SELDOM 12000

static volatile unsigned sink;

NOIPA static void brief(void)
{
    for (unsigned i = 0; i < 12; i++)
        sink += i;
}

NOIPA static void lengthy(void)
{
    for (unsigned i = 0; i < 3000; i++)
        sink += i;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OFTEN; i++)
            brief();
        for (int i = 0; i < SELDOM; i++)
            lengthy();
    }
    printf("brief %d\nlengthy %d\n", ROUNDS * OFTEN, ROUNDS * SELDOM);
    return 0;
}
