// SPDX-License-Identifier: MIT
// Fibonacci's numbers, with one place that calls, so that there are as many contexts as levels and
// not as many as calls: nothing but calls and returns.

#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) static long fib(long n)
{
    long sum = n < 2;
    if (n > 1)
#pragma GCC unroll 1
        for (long i = n - 1; i >= n - 2; i--)
            sum += fib(i);
    return sum;
}

int main(int argc, char **argv)
{
    const long n = argc > 1 ? atol(argv[1]) : 36;
    for (long times = argc > 2 ? atol(argv[2]) : 1; times > 0; times--)
        printf("%ld\n", fib(n));
    return 0;
}
