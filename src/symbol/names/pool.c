// SPDX-License-Identifier: MIT
#include "symbol/names/pool.h"
#include "base/memory.h"
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool_chunk {
    struct pool_chunk *next;
    size_t bytes;
    alignas(max_align_t) unsigned char data[];
};

enum { CHUNK_BYTES = 64 * 1024 };

void *pool_take(struct text_pool *pool, size_t bytes)
{
    bytes = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (bytes > pool->left) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct pool_chunk *chunk = memory_checked(calloc(1, sizeof *chunk + size));
        chunk->next = pool->chunks;
        chunk->bytes = size;
        pool->chunks = chunk;
        pool->left = size;
    }
    void *taken = pool->chunks->data + pool->chunks->bytes - pool->left;
    pool->left -= bytes;
    return taken;
}

// FNV-1a: names are short, and a collision costs one comparison.
uint64_t pool_hash(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static void rehash(struct text_pool *pool)
{
    size_t slots = pool->string_slots ? pool->string_slots * 2 : 1024;
    const char **strings = memory_array(slots, sizeof *strings);
    for (size_t i = 0; i < pool->string_slots; i++) {
        const char *text = pool->strings[i];
        if (!text)
            continue;
        size_t slot = pool_hash(text, strlen(text)) & (slots - 1);
        while (strings[slot])
            slot = (slot + 1) & (slots - 1);
        strings[slot] = text;
    }
    free(pool->strings);
    pool->strings = strings;
    pool->string_slots = slots;
}

const char *pool_substring(struct text_pool *pool, const char *text, size_t length)
{
    if (pool->string_count * 2 >= pool->string_slots)
        rehash(pool);
    size_t slot = pool_hash(text, length) & (pool->string_slots - 1);
    for (; pool->strings[slot]; slot = (slot + 1) & (pool->string_slots - 1)) {
        const char *known = pool->strings[slot];
        if (strncmp(known, text, length) == 0 && known[length] == '\0')
            return known;
    }
    char *copy = pool_take(pool, length + 1);
    memcpy(copy, text, length);
    pool->strings[slot] = copy;
    pool->string_count++;
    return copy;
}

const char *pool_string(struct text_pool *pool, const char *text)
{
    return pool_substring(pool, text, strlen(text));
}

const char *pool_format(struct text_pool *pool, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    memory_checked(length < 0 ? NULL : text);
    const char *kept = pool_substring(pool, text, (size_t)length);
    free(text);
    return kept;
}

void pool_free(struct text_pool *pool)
{
    while (pool->chunks) {
        struct pool_chunk *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
    free(pool->strings);
    memset(pool, 0, sizeof *pool);
}
