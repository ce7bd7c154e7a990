// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_TABLES_H
#define CAIRN_UNWIND_TABLES_H

// Reading unwind tables that may be damaged: never outside of [start, end), never twice the same
// byte without an end. A read that does not fit yields 0 and sets `failed`, which stays.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const unsigned char *at, *end;
    bool failed;
};

static inline struct reader reader_make(const unsigned char *at, const unsigned char *end)
{
    return (struct reader){at, end, at > end};
}

static inline size_t reader_left(const struct reader *reader)
{
    return reader->failed ? 0 : (size_t)(reader->end - reader->at);
}

static inline bool reader_take(struct reader *reader, void *to, size_t bytes)
{
    if (reader_left(reader) < bytes) {
        reader->failed = true;
        memset(to, 0, bytes);
        return false;
    }
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
    return true;
}

static inline void reader_skip(struct reader *reader, uint64_t bytes)
{
    if (reader_left(reader) < bytes)
        reader->failed = true;
    else
        reader->at += bytes;
}

#define READER_NUMBER(name, type)                                                                  \
    static inline type reader_##name(struct reader *reader)                                        \
    {                                                                                              \
        type value;                                                                                \
        reader_take(reader, &value, sizeof value);                                                 \
        return value;                                                                              \
    }
READER_NUMBER(u8, uint8_t)
READER_NUMBER(u16, uint16_t)
READER_NUMBER(u32, uint32_t)
READER_NUMBER(u64, uint64_t)
#undef READER_NUMBER

static inline uint64_t reader_uleb(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = reader_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t reader_sleb(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = reader_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
}

#endif
