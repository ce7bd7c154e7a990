// SPDX-License-Identifier: MIT
#include "profile/chunks/bytes.h"
#include <stdlib.h>
#include <string.h>

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

static bool make_room(struct bytes *bytes, size_t size)
{
    if (bytes->capacity - bytes->size >= size)
        return true;
    size_t capacity = bytes->capacity ? bytes->capacity : 256;
    while (capacity - bytes->size < size) {
        if (capacity > SIZE_MAX / 2) {
            bytes->failed = true;
            return false;
        }
        capacity *= 2;
    }
    uint8_t *data = realloc(bytes->data, capacity);
    if (!data) {
        bytes->failed = true;
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
    if (size == 0 || !make_room(bytes, size))
        return;
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

enum { MOST_VARINT_BYTES = 10 };

uint8_t *bytes_room_for_varints(struct bytes *bytes, size_t count)
{
    return make_room(bytes, count * MOST_VARINT_BYTES) ? bytes->data + bytes->size : NULL;
}

void bytes_put_varint(struct bytes *bytes, uint64_t value)
{
    uint8_t *at = bytes_room_for_varints(bytes, 1);
    if (at)
        bytes_put_until(bytes, bytes_put_here(at, value));
}

void bytes_put_string(struct bytes *bytes, const char *text, size_t size)
{
    bytes_put_varint(bytes, size);
    bytes_put(bytes, text, size);
}

void bytes_put_fixed(struct bytes *bytes, uint64_t value, unsigned size)
{
    uint8_t data[8];
    for (unsigned i = 0; i < size; i++)
        data[i] = (uint8_t)(value >> 8 * i);
    bytes_put(bytes, data, size);
}

uint64_t cursor_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    cursor->failed = true;
    cursor->at = cursor->end;
    return 0;
}

uint32_t cursor_varint32(struct cursor *cursor)
{
    uint64_t value = cursor_varint(cursor);
    if (value <= UINT32_MAX)
        return (uint32_t)value;
    cursor->failed = true;
    return 0;
}

const uint8_t *cursor_bytes(struct cursor *cursor, size_t size)
{
    if (cursor_left(cursor) < size) {
        cursor->failed = true;
        cursor->at = cursor->end;
        return NULL;
    }
    const uint8_t *data = cursor->at;
    cursor->at += size;
    return data;
}

uint64_t cursor_fixed(struct cursor *cursor, unsigned size)
{
    const uint8_t *data = cursor_bytes(cursor, size);
    uint64_t value = 0;
    for (unsigned i = 0; data && i < size; i++)
        value |= (uint64_t)data[i] << 8 * i;
    return value;
}

char *cursor_string(struct cursor *cursor)
{
    size_t size = cursor_varint(cursor);
    const uint8_t *data = cursor_bytes(cursor, size);
    char *text = data ? malloc(size + 1) : NULL;
    if (!text)
        return NULL;
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}
