// SPDX-License-Identifier: MIT
// Sorts with the C library's qsort(): each call of the program comes from a library that is not
// followed.

#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) static int compare(const void *left, const void *right)
{
    const unsigned x = *(const unsigned *)left, y = *(const unsigned *)right;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 4000000;
    unsigned *numbers = malloc(count * sizeof *numbers), state = 1;
    if (!numbers)
        return 1;
    for (long times = argc > 2 ? atol(argv[2]) : 1; times > 0; times--) {
        for (size_t i = 0; i < count; i++)
            numbers[i] = state = state * 1664525 + 1013904223;
        qsort(numbers, count, sizeof *numbers, compare);
        printf("%u %u %u\n", numbers[0], numbers[count / 2], numbers[count - 1]);
    }
    free(numbers);
    return 0;
}
