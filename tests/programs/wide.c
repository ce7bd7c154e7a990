// SPDX-License-Identifier: MIT
// Three functions that call each other, to a depth: 88,573 contexts. Then a rest, in which a
// recorder writes them down, and all of it again, or the first of it.

#include "common.h"
#include <unistd.h>

#define DEPTH 10

NOIPA void second(int depth);
NOIPA void third(int depth);

NOIPA void first(int depth)
{
    if (depth == 0)
        return;
    first(depth - 1);
    second(depth - 1);
    third(depth - 1);
}

NOIPA void second(int depth)
{
    if (depth == 0)
        return;
    first(depth - 1);
    second(depth - 1);
    third(depth - 1);
}

NOIPA void third(int depth)
{
    if (depth == 0)
        return;
    first(depth - 1);
    second(depth - 1);
    third(depth - 1);
}

int main(int argc, char **argv)
{
    first(DEPTH);
    usleep(1300000);
    first(argc > 1 && !strcmp(argv[1], "all") ? DEPTH : 0);
    return 0;
}
