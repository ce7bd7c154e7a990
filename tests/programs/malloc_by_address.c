// SPDX-License-Identifier: MIT
// At a fixed address, a pointer to malloc() points into the executable, where there is only a way
// to libc's.

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *(*volatile allocate)(size_t) = malloc;
    for (int i = 0; i < 100; i++)
        free(allocate(1000));
    puts("done");
    return 0;
}
