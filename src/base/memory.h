// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_MEMORY_H
#define CAIRN_BASE_MEMORY_H

// Memory for the tool (never for the agent). There is nothing sensible that a report could do
// without memory, so these never return NULL: the tool says so and dies.

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *memory_checked(void *memory)
{
    if (memory)
        return memory;
    fputs("cairn: out of memory\n", stderr);
    abort();
}

// Zeroed. Room for at least one, so that an empty array is not NULL.
static inline void *memory_array(size_t count, size_t size)
{
    return memory_checked(calloc(count ? count : 1, size));
}

static inline char *memory_text(const char *text)
{
    return memory_checked(strdup(text));
}

// An array of *capacity members made to hold at least `least`; doubles, so adding one at a time is
// cheap.
static inline void *memory_grown(void *memory, size_t *capacity, size_t least, size_t size)
{
    if (least <= *capacity)
        return memory;
    size_t doubled = *capacity ? *capacity * 2 : 64;
    *capacity = doubled > least ? doubled : least;
    if (*capacity > (size_t)-1 / size)
        memory_checked(NULL);
    return memory_checked(realloc(memory, *capacity * size));
}

#endif
