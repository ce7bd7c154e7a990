// SPDX-License-Identifier: MIT
// 100,000 exceptions, thrown at different depths, caught, rethrown, and through destructors that
// call.

extern "C" {
#include "calls.h"
}

static volatile int sink;

NOIPA static void cleans_up()
{
    sink++;
}

struct guard {
    ~guard()
    {
        TRUTH(throws_through, cleans_up);
        cleans_up();
    }
};

NOIPA static void throws(int value)
{
    if (value % 2)
        throw value;
    throw "text";
}

NOIPA static void throws_through(int depth, int value)
{
    guard cleaned;
    if (depth)
        CALL(throws_through, throws_through, depth - 1, value);
    else
        CALL(throws_through, throws, value);
}

NOIPA static void handles(int value)
{
    sink = value;
}

NOIPA static void passes_on(int depth, int value)
{
    try {
        CALL(passes_on, throws_through, depth, value);
    } catch (int caught) {
        CALL(passes_on, handles, caught);
        throw;
    }
}

NOIPA static void catches(int number)
{
    try {
        CALL(catches, passes_on, number % 4, number);
    } catch (int caught) {
        CALL(catches, handles, caught);
    } catch (const char *) {
        CALL(catches, handles, 0);
    }
    CALL(catches, handles, 1);
}

int main()
{
    for (int i = 0; i < 100000; i++)
        CALL(main, catches, i);
    tell_truth();
    return 0;
}
