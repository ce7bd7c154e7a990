// SPDX-License-Identifier: MIT
// Tail calls: the frame that was marked belongs to another function by the time it returns.

#include "common.h"

static volatile uint64_t sink;

NOIPA int tail_leaf(int value)
{
    sink += burn((uint64_t)value, 10);
    NO_TAIL_CALL();
    return value + 1;
}

NOIPA int tail_third(int value)
{
    sink += burn((uint64_t)value, 10);
    return tail_leaf(value + 1);
}

NOIPA int tail_second(int value)
{
    sink += burn((uint64_t)value, 10);
    return tail_third(value + 1);
}

NOIPA int tail_first(int value)
{
    int inner = tail_leaf(value);
    NO_TAIL_CALL();
    return tail_second(inner);
}

NOIPA int tail_odd(unsigned depth, int value);

// A million of these in a row would not fit the stack if they were real calls.
NOIPA int tail_even(unsigned depth, int value)
{
    if (depth % 4096 == 0)
        value = tail_leaf(value);
    return depth == 0 ? tail_first(value) : tail_odd(depth - 1, value + 1);
}

NOIPA int tail_odd(unsigned depth, int value)
{
    if (depth % 4096 == 1)
        value = tail_leaf(value);
    return depth == 0 ? tail_first(value) : tail_even(depth - 1, value - 1);
}

typedef int (*step)(int);

// Stack arguments shift between caller and callee, and the target is found at run time.
NOIPA int tail_indirect(int a, int b, int c, int d, int e, int f, int g, int h, step next)
{
    sink += burn((uint64_t)a, 5);
    if (a == 0)
        return next(b + c + d + e + f + g + h);
    return tail_indirect(a - 1, c, b, d + 1, e, f, g + 1, h, next);
}

NOIPA int caller_of_chain(int value)
{
    int result = tail_first(value);
    NO_TAIL_CALL();
    return result;
}

NOIPA int caller_of_pair(int value)
{
    int result = tail_even(1000000, value);
    NO_TAIL_CALL();
    return result;
}

NOIPA int caller_of_indirect(int value)
{
    int result = tail_indirect(8, value, 1, 2, 3, 4, 5, 6, value % 2 ? tail_first : tail_second);
    NO_TAIL_CALL();
    return result;
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        sum += caller_of_chain(i);
        sum += caller_of_indirect(i);
        if (i % 20 == 0)
            sum += caller_of_pair(i);
    }
    printf("tail calls %ld\n", sum);
    return 0;
}
