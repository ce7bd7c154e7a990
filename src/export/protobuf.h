// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PROTOBUF_H
#define CAIRN_EXPORT_PROTOBUF_H

// Writes the fields of protocol buffers. A field with the value 0, or an empty text, is not
// written: that is what a reader takes for one that is missing.

#include "profile/chunks/bytes.h"

enum { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_LENGTH = 2, PROTOBUF_FIXED32 = 5 };

static inline void protobuf_tag(struct bytes *out, unsigned field, unsigned type)
{
    bytes_put_varint(out, field << 3 | type);
}

static inline void protobuf_number(struct bytes *out, unsigned field, uint64_t value)
{
    if (!value)
        return;
    protobuf_tag(out, field, PROTOBUF_VARINT);
    bytes_put_varint(out, value);
}

static inline void protobuf_fixed64(struct bytes *out, unsigned field, uint64_t value)
{
    if (!value)
        return;
    protobuf_tag(out, field, PROTOBUF_FIXED64);
    bytes_put_fixed(out, value, 8);
}

// A member of a list: written even if it is empty.
static inline void protobuf_bytes(struct bytes *out, unsigned field, const void *data, size_t size)
{
    protobuf_tag(out, field, PROTOBUF_LENGTH);
    bytes_put_string(out, data, size);
}

// UTF-8, as the format demands.
void protobuf_text(struct bytes *out, unsigned field, const char *text);

// Empties the message for the next one.
static inline void protobuf_message(struct bytes *out, unsigned field, struct bytes *message)
{
    protobuf_bytes(out, field, message->data, message->size);
    out->failed |= message->failed;
    message->size = 0;
}

#endif
