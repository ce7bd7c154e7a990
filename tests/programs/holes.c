// SPDX-License-Identifier: MIT
// Unmaps memory, calls a function for the first time, and looks whether anything has come to be
// where the memory was.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static volatile unsigned long sum;

__attribute__((noinline)) static void leaf(unsigned long n)
{
    sum += n;
}

#define FUNCTION(n)                                                                                \
    __attribute__((noinline)) static void function##n(void)                                        \
    {                                                                                              \
        for (unsigned long i = 0; i < 20000; i++)                                                  \
            leaf(i ^ n);                                                                           \
        free(malloc(n + 1));                                                                       \
        sum += (unsigned long)lgamma(n + 2.5);                                                     \
    }
#define TEN(n)                                                                                     \
    FUNCTION(n##0)                                                                                 \
    FUNCTION(n##1)                                                                                 \
    FUNCTION(n##2)                                                                                 \
    FUNCTION(n##3)                                                                                 \
    FUNCTION(n##4)                                                                                 \
    FUNCTION(n##5)                                                                                 \
    FUNCTION(n##6)                                                                                 \
    FUNCTION(n##7)                                                                                 \
    FUNCTION(n##8)                                                                                 \
    FUNCTION(n##9)
TEN(1)
TEN(2)
TEN(3)
TEN(4)
#define NAMES(n)                                                                                   \
    function##n##0, function##n##1, function##n##2, function##n##3, function##n##4,                \
        function##n##5, function##n##6, function##n##7, function##n##8, function##n##9
static void (*const functions[])(void) = {NAMES(1), NAMES(2), NAMES(3), NAMES(4)};

// Pages of it that are mapped again.
static size_t mapped(char *hole, size_t bytes)
{
    size_t pages = 0;
    for (size_t at = 0; at < bytes; at += PAGE) {
        unsigned char there;
        pages += mincore(hole + at, PAGE, &there) == 0 || errno != ENOMEM;
    }
    return pages;
}

int main(void)
{
    static char line[256];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    size_t filled = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const size_t bytes = (size_t)PAGE << i % 11;
        char *hole = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (hole == MAP_FAILED || munmap(hole, bytes))
            return 1;
        functions[i]();
        filled += mapped(hole, bytes) != 0;
    }
    printf("%zu holes were filled\n", filled);
    return filled != 0;
}
