// SPDX-License-Identifier: MIT
// Spends CPU time in known paths, and measures it itself. Prints "PATH NANOSECONDS" for each.

#include "common.h"

static volatile uint64_t sink;
static uint64_t spent[7];

NOIPA void share_leaf(int path, unsigned units)
{
    uint64_t start = thread_cpu_ns();
    sink += burn((uint64_t)path, units);
    spent[path] += thread_cpu_ns() - start;
}

NOIPA void share_left(int path, unsigned units)
{
    share_leaf(path, units);
    NO_TAIL_CALL();
}

NOIPA void share_right(int path, unsigned units)
{
    share_leaf(path, units);
    NO_TAIL_CALL();
}

NOIPA void share_recursive(int depth, int path, unsigned units)
{
    if (depth > 0)
        share_recursive(depth - 1, path, units);
    else
        share_left(path, units);
    NO_TAIL_CALL();
}

typedef void (*share_function)(int path, unsigned units);

NOIPA void share_upper(int base, share_function first, share_function second)
{
    first(base, 30);
    second(base + 1, 10);
    NO_TAIL_CALL();
}

NOIPA void share_lower(int base, share_function first, share_function second)
{
    first(base, 5);
    second(base + 1, 50);
    NO_TAIL_CALL();
}

int main(void)
{
    static const char *const names[] = {
        "share_upper;share_left",  "share_upper;share_right",      "share_lower;share_left",
        "share_lower;share_right", "share_recursive*3;share_left", "share_recursive*9;share_left"};
    for (int i = 0; i < 2000; i++) {
        share_upper(0, share_left, share_right);
        share_lower(2, share_left, share_right);
        share_recursive(2, 4, 15);
        share_recursive(8, 5, 20);
    }
    for (int path = 0; path < 6; path++)
        printf("%s %llu\n", names[path], (unsigned long long)spent[path]);
    return 0;
}
