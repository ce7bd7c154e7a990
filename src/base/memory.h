// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_MEMORY_H
#define CAIRN_BASE_MEMORY_H

// Memory for the tool (never for the agent). There is nothing sensible that a report could do
// without memory, so these never return NULL: the tool says so and dies.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// A large array is about to be filled: to get its memory page by page would take as long as that.
static inline void memory_expect_use(void *array, size_t bytes)
{
    const uintptr_t page = (uintptr_t)2 << 20;
    const uintptr_t start = ((uintptr_t)array + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)array + bytes) & ~(page - 1);
    if (end > start + page)
        madvise((void *)start, end - start, MADV_HUGEPAGE);
}

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
    void *array = memory_checked(calloc(count ? count : 1, size));
    memory_expect_use(array, count * size);
    return array;
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
    memory = memory_checked(realloc(memory, *capacity * size));
    memory_expect_use(memory, *capacity * size);
    return memory;
}

#endif
