// SPDX-License-Identifier: MIT
// The program of Figure 1 of the csprof paper: a and b cost the same below c, b calls it twice as
// often.

#define NOIPA __attribute__((noipa))

enum { HUGE = 1 << 26, REPEAT = 8 };

NOIPA void d(void)
{
    __asm__ volatile("");
}

NOIPA void c(int n)
{
    for (int i = 0; i < HUGE / REPEAT / n; i++)
        d();
}

NOIPA void b(void (*f)(int))
{
    f(2);
    f(2);
    f(2);
    f(2);
    __asm__ volatile("" ::: "memory");
}

NOIPA void a(void (*f)(int))
{
    f(1);
    f(1);
    __asm__ volatile("" ::: "memory");
}

int main(void)
{
    // The paper calls each once; more and shorter calls give the return counts something to count.
    for (int i = 0; i < REPEAT; i++) {
        a(c);
        b(c);
    }
    return 0;
}
