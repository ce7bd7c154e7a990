// SPDX-License-Identifier: MIT
// A function that jumps through a variable, as those do that lead to whatever was chosen: it looks
// like an entry of the PLT, but the variable changes.

#include "common.h"

static volatile uint64_t sink;
static unsigned ones, twos;

NOIPA void work(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        sink += burn(i, 5) + (uint64_t)rand(); // not just its own code
    NO_TAIL_CALL();
}

NOIPA void one(unsigned rounds)
{
    ones++;
    work(rounds);
    work(rounds / 2);
    NO_TAIL_CALL();
}

NOIPA void two(unsigned rounds)
{
    twos++;
    work(rounds / 3);
    one(rounds / 3);
    NO_TAIL_CALL();
}

void (*chosen)(unsigned) = one;

NOIPA void by_choice(unsigned rounds)
{
    chosen(rounds);
}

NOIPA void both(unsigned rounds)
{
    two(rounds);
    one(rounds);
    NO_TAIL_CALL();
}

NOIPA void other(unsigned rounds)
{
    by_choice(rounds);
    two(rounds);
    NO_TAIL_CALL();
}

int main(void)
{
    for (unsigned i = 0; i < 60; i++) {
        chosen = i < 20 || i % 2 ? one : two;
        by_choice(100);
        other(100);
        both(100);
    }
    printf("%u %u\n", ones, twos);
    return 0;
}
