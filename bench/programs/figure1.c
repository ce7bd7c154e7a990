// SPDX-License-Identifier: MIT
// The program of csprof's Figure 1: a call of c from a costs twice as much as one from b, and there
// are half as many, so the time below c belongs half to a and half to b. Whoever divides it by
// counts of calls gives a third to a. noipa keeps the calls calls, in an optimised build, too.

#include <stdio.h>

#define HUGE (1 << 28)
#define ALONE __attribute__((noipa))

ALONE void d(void)
{
}

ALONE void c(int n)
{
    for (int i = 0; i < HUGE / n; ++i)
        d();
}

ALONE void b(void (*f)(int))
{
    f(2);
    f(2);
    f(2);
    f(2);
}

ALONE void a(void (*f)(int))
{
    f(1);
    f(1);
}

int main(void)
{
    a(c);
    b(c);
    puts("done");
    return 0;
}
