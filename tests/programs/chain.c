// SPDX-License-Identifier: MIT
// A chain of 256 functions that jump on to the next one, as tables of a compiler do: whoever wants
// to know where the first leads to has to look at all of them, and there are 3,000 calls in them.

#include <stdio.h>

typedef unsigned long (*step)(unsigned long);

static __attribute__((noinline)) unsigned long work(unsigned long n)
{
    for (unsigned i = 0; i < 400; i++)
        n = n * 6364136223846793005UL + (n >> 33);
    return n;
}

static step volatile through = work;

// Not a function that comes back without a call that counts.
static __attribute__((noinline)) unsigned long call(unsigned long n)
{
    return through(n) + 1;
}

// clang-format off
#define CALL(k) if ((n >> k) % 64 == 0) n += call(n)
#define LINK(name, next) \
    __attribute__((noinline)) unsigned long name(unsigned long n) \
    { \
        CALL(0); CALL(3); CALL(6); CALL(9); CALL(12); CALL(15); \
        CALL(18); CALL(21); CALL(24); CALL(27); CALL(30); CALL(33); \
        return next(n); \
    }
// clang-format on
#define LINKS4(p, next)                                                                            \
    LINK(p##3, next)                                                                               \
    LINK(p##2, p##3)                                                                               \
    LINK(p##1, p##2)                                                                               \
    LINK(p##0, p##1)
#define LINKS16(p, next)                                                                           \
    LINKS4(p##3, next)                                                                             \
    LINKS4(p##2, p##30)                                                                            \
    LINKS4(p##1, p##20)                                                                            \
    LINKS4(p##0, p##10)
#define LINKS64(p, next)                                                                           \
    LINKS16(p##3, next)                                                                            \
    LINKS16(p##2, p##300)                                                                          \
    LINKS16(p##1, p##200)                                                                          \
    LINKS16(p##0, p##100)

LINKS64(d, work)
LINKS64(c, d000)
LINKS64(b, c000)
LINKS64(a, b000)

int main(void)
{
    unsigned long n = 1;
    for (unsigned i = 0; i < 150000; i++)
        n = a000(n) + i;
    printf("%lu\n", n);
    return 0;
}
