// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_NAMES_POOL_H
#define CAIRN_SYMBOL_NAMES_POOL_H

// Memory that is given back all at once, and strings that are kept once: thousands of places share
// a few hundred names and files, and answers must stay where they are until the end.

#include <stddef.h>
#include <stdint.h>

struct pool_chunk;

struct text_pool {
    struct pool_chunk *chunks;
    size_t left;          // bytes free in the newest chunk
    const char **strings; // open addressing, NULL: free
    size_t string_count, string_slots;
};

void *pool_take(struct text_pool *pool, size_t bytes); // zeroed, never NULL
const char *pool_string(struct text_pool *pool, const char *text);
const char *pool_substring(struct text_pool *pool, const char *text, size_t length);
const char *pool_format(struct text_pool *pool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pool_free(struct text_pool *pool);

uint64_t pool_hash(const void *data, size_t length);

#endif
