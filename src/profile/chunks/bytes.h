// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_CHUNKS_BYTES_H
#define CAIRN_PROFILE_CHUNKS_BYTES_H

// Bytes that are put together (struct bytes) and taken apart (struct cursor). Errors are sticky:
// put or take as much as you like and look at `failed` once at the end. Numbers are LEB128 varints.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data;
    size_t size, capacity;
    bool failed; // out of memory: the content is incomplete
};

void bytes_free(struct bytes *bytes);
void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_put_varint(struct bytes *bytes, uint64_t value);

// Room for so many varints: where they go, NULL if there is no memory. bytes_put_here() puts one,
// and bytes_put_until() says where the last one has ended.
uint8_t *bytes_room_for_varints(struct bytes *bytes, size_t count);

static inline uint8_t *bytes_put_here(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static inline void bytes_put_until(struct bytes *bytes, const uint8_t *end)
{
    bytes->size = (size_t)(end - bytes->data);
}

void bytes_put_string(struct bytes *bytes, const char *text,
                      size_t size);                                       // its length, then itself
void bytes_put_fixed(struct bytes *bytes, uint64_t value, unsigned size); // little endian

struct cursor {
    const uint8_t *at, *end;
    bool failed; // ran over the end, or met a number that is none
};

uint64_t cursor_varint(struct cursor *cursor);
uint32_t cursor_varint32(struct cursor *cursor); // fails beyond 32 bits
uint64_t cursor_fixed(struct cursor *cursor, unsigned size);
const uint8_t *cursor_bytes(struct cursor *cursor, size_t size); // NULL: too few are left
char *cursor_string(struct cursor *cursor); // to be freed; NULL: failed, or out of memory

static inline size_t cursor_left(const struct cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static inline uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (0 - (uint64_t)(value < 0));
}

static inline int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

#endif
