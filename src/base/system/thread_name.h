// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_THREAD_NAME_H
#define CAIRN_BASE_SYSTEM_THREAD_NAME_H

// Names of threads as the kernel keeps them, and the pools that numbered ones make:
//
//   worker-1, worker-2, ... worker-64        worker-*
//   pool-1-thread-1, pool-1-thread-2         pool-1-thread-*
//   C1 Compiler, C2 Compiler                 two kinds, no pool
//
// Two names are of one pool if they differ in one number alone: the last that ends the name, or
// that does not follow a letter. Names come from programs: none of these functions reads beyond the
// bytes that a name may have. Signal-safe.

#include <stdbool.h>
#include <stddef.h>

#define THREAD_NAME_BYTES 16 // with the zero at the end, as in the kernel

static inline bool thread_name_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool thread_name_is_letter(char byte)
{
    return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

// The name with a '*' for its number.
static inline void thread_name_pool(char pool[THREAD_NAME_BYTES], const char *name)
{
    size_t length = 0, first = 0, end = 0; // of the number: none yet
    while (length < THREAD_NAME_BYTES - 1 && name[length])
        length++;
    for (size_t i = 0, next; i < length; i = next + 1) {
        for (next = i; next < length && thread_name_is_digit(name[next]);)
            next++;
        if (next > i && (next == length || i == 0 || !thread_name_is_letter(name[i - 1]))) {
            first = i;
            end = next;
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < length; i++)
        if (i < first || i >= end)
            pool[at++] = name[i];
        else if (i == first)
            pool[at++] = '*';
    while (at < THREAD_NAME_BYTES)
        pool[at++] = '\0';
}

static inline bool thread_name_equals(const char *one, const char *other)
{
    for (size_t i = 0; i < THREAD_NAME_BYTES; i++) {
        if (one[i] != other[i])
            return false;
        if (!one[i])
            return true;
    }
    return true;
}

static inline bool thread_name_same_pool(const char *one, const char *other)
{
    char pool[2][THREAD_NAME_BYTES];
    thread_name_pool(pool[0], one);
    thread_name_pool(pool[1], other);
    return thread_name_equals(pool[0], pool[1]);
}

#endif
