// SPDX-License-Identifier: MIT
// A function of a few instructions that is called often, and is hardly ever where the time goes: a
// hook on its calls takes several times as long as the function itself.

#include <stdio.h>

#define ALONE __attribute__((noipa))
#define ROUNDS 200000
#define STEPS 1000
#define STEPS_A_CALL 50

ALONE unsigned long leaf(unsigned long value)
{
    return value + 1;
}

ALONE unsigned long work(unsigned long value)
{
    for (unsigned step = 0; step < STEPS; step++) {
        value = value * 6364136223846793005UL + 1442695040888963407UL; // waits for the one before
        if (step % STEPS_A_CALL == 0)
            value = leaf(value);
    }
    return value;
}

int main(void)
{
    unsigned long sum = 0;
    for (unsigned round = 0; round < ROUNDS; round++)
        sum += work(round);
    printf("%lu\n", sum);
    return 0;
}
