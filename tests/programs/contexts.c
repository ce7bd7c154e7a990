// SPDX-License-Identifier: MIT

// Very many contexts, few of them hot, the same in every run: paths of eight functions that call
// each other, more often along the first of them than along others. contexts PATHS [DEPTH [WORK
// [LATE [UNTIL]]]]: when all is done, one more context is met, LATE times. With UNTIL, paths go on
// until there is such a file, and their number is printed.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;
static unsigned work;

static inline unsigned next_function(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const unsigned chosen = (unsigned)(state >> 40);
    return chosen & 1 ? 0 : chosen >> 1 & 7;
}

static inline uint64_t toil(void)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < work; i++) {
        sum = sum * 6364136223846793005u + i;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum & 1;
}

uint64_t f0(unsigned), f1(unsigned), f2(unsigned), f3(unsigned), f4(unsigned), f5(unsigned),
    f6(unsigned), f7(unsigned);

// Not in the place of the caller's own frame: something is left to do.
#define FUNCTION(name)                                                                             \
    __attribute__((noinline, noclone)) uint64_t name(unsigned depth)                               \
    {                                                                                              \
        uint64_t own = toil();                                                                     \
        if (depth == 0)                                                                            \
            return own;                                                                            \
        switch (next_function()) {                                                                 \
        case 0:                                                                                    \
            return own + 2 * f0(depth - 1);                                                        \
        case 1:                                                                                    \
            return own + 3 * f1(depth - 1);                                                        \
        case 2:                                                                                    \
            return own + 4 * f2(depth - 1);                                                        \
        case 3:                                                                                    \
            return own + 5 * f3(depth - 1);                                                        \
        case 4:                                                                                    \
            return own + 6 * f4(depth - 1);                                                        \
        case 5:                                                                                    \
            return own + 7 * f5(depth - 1);                                                        \
        case 6:                                                                                    \
            return own + 8 * f6(depth - 1);                                                        \
        default:                                                                                   \
            return own + 9 * f7(depth - 1);                                                        \
        }                                                                                          \
    }

FUNCTION(f0)
FUNCTION(f1)
FUNCTION(f2)
FUNCTION(f3)
FUNCTION(f4)
FUNCTION(f5)
FUNCTION(f6)
FUNCTION(f7)

int main(int argc, char **argv)
{
    unsigned paths = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    const unsigned depth = argc > 2 ? (unsigned)atoi(argv[2]) : 9;
    work = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < paths; i++)
        sum += f0(depth);
    for (; argc > 5 && (paths % 1000 || access(argv[5], F_OK) != 0); paths++)
        sum += f0(depth);
    if (argc > 5)
        printf("%u\n", paths);
    const unsigned late = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    for (unsigned i = 0; i < late; i++)
        sum += f7(0);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
