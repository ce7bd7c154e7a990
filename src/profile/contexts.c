// SPDX-License-Identifier: MIT
#include "profile/contexts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXTS_MODULE, CONTEXTS_SECTIONS, CONTEXTS_COUNTS };
enum { COUNTS = 4, PIECE = 1 << 20 };

static struct bytes *begin(struct batch *batch, uint32_t process, unsigned kind)
{
    struct bytes *out = &batch->payload[CHUNK_CONTEXTS];
    bytes_put_varint(out, process);
    bytes_put_varint(out, kind);
    return out;
}

void contexts_put_sections(struct batch *batch, uint32_t process, uint64_t offset,
                           const uint8_t *data, size_t size)
{
    while (size > 0) {
        const size_t piece = size < PIECE ? size : PIECE;
        struct bytes *out = begin(batch, process, CONTEXTS_SECTIONS);
        bytes_put_varint(out, offset);
        bytes_put_string(out, (const char *)data, piece);
        batch_flush_large(batch);
        offset += piece;
        data += piece;
        size -= piece;
    }
}

void contexts_put_module(struct batch *batch, uint32_t process, unsigned number, unsigned module)
{
    struct bytes *out = begin(batch, process, CONTEXTS_MODULE);
    bytes_put_varint(out, number);
    bytes_put_varint(out, module);
}

void contexts_put_counts(struct batch *batch, uint32_t process,
                         const struct profile_contexts *contexts)
{
    struct bytes *out = begin(batch, process, CONTEXTS_COUNTS);
    bytes_put_varint(out, COUNTS);
    bytes_put_varint(out, contexts->first);
    bytes_put_varint(out, contexts->number);
    bytes_put_varint(out, contexts->walked);
    bytes_put_varint(out, contexts->unknown);
}

void contexts_put(struct batch *batch, uint32_t process, const struct profile_contexts *contexts)
{
    if (!contexts->bytes && !contexts->unknown)
        return;
    for (unsigned i = 0; i < contexts->module_count; i++)
        if (contexts->modules[i])
            contexts_put_module(batch, process, i, contexts->modules[i]);
    contexts_put_counts(batch, process, contexts);
    contexts_put_sections(batch, process, 0, contexts->sections, contexts->bytes);
}

static bool take_module(struct loader *loader, struct cursor *cursor,
                        struct profile_contexts *contexts)
{
    const uint64_t number = cursor_varint(cursor), module = cursor_varint(cursor);
    if (cursor->failed || number >= MODULE_LIMIT || module >= MODULE_LIMIT)
        return false;
    if (number >= contexts->module_count) {
        if (!loader_grow(loader, &contexts->modules, contexts->module_count, number + 1,
                         sizeof *contexts->modules))
            return false;
        contexts->module_count = (unsigned)number + 1;
    }
    contexts->modules[number] = (uint16_t)module;
    if (module > loader->top_module)
        loader->top_module = (unsigned)module;
    return true;
}

static bool take_sections(struct loader *loader, struct cursor *cursor,
                          struct profile_contexts *contexts)
{
    const uint64_t offset = cursor_varint(cursor), size = cursor_varint(cursor);
    const uint8_t *data =
        cursor->failed || size > cursor_left(cursor) ? NULL : cursor_bytes(cursor, size);
    // Bytes that do not follow those before would be taken for something else.
    if (data && offset != contexts->bytes) {
        contexts->cut = true;
        return true;
    }
    if (!data ||
        !loader_grow(loader, &contexts->sections, contexts->bytes, contexts->bytes + size, 1))
        return false;
    if (size > 0)
        memcpy(contexts->sections + contexts->bytes, data, size);
    contexts->bytes += size;
    return true;
}

static bool take_counts(struct cursor *cursor, struct profile_contexts *contexts)
{
    uint64_t numbers[COUNTS] = {0};
    uint64_t count = cursor_varint(cursor);
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        uint64_t number = cursor_varint(cursor);
        if (i < COUNTS)
            numbers[i] = number;
    }
    if (cursor->failed || numbers[0] > UINT32_MAX)
        return false;
    contexts->first = (uint32_t)numbers[0];
    contexts->number = numbers[1];
    contexts->walked = numbers[2];
    contexts->unknown = numbers[3];
    return true;
}

bool contexts_take(struct loader *loader, struct cursor *cursor)
{
    const uint32_t index = cursor_varint32(cursor);
    const uint64_t kind = cursor_varint(cursor);
    struct profile_process *process = cursor->failed ? NULL : loader_process(loader, index);
    if (!process)
        return false;
    switch (kind) {
    case CONTEXTS_MODULE:
        return take_module(loader, cursor, &process->contexts);
    case CONTEXTS_SECTIONS:
        return take_sections(loader, cursor, &process->contexts);
    case CONTEXTS_COUNTS:
        return take_counts(cursor, &process->contexts);
    default:
        return false;
    }
}

int contexts_copy(struct profile_contexts *to, const struct profile_contexts *from,
                  const unsigned *map, unsigned count)
{
    *to = *from;
    to->sections = NULL;
    to->modules = NULL;
    to->bytes = 0;
    to->module_count = 0;
    if (from->bytes && !profile_grow((void **)&to->sections, 0, from->bytes, 1))
        return -ENOMEM;
    if (from->bytes)
        memcpy(to->sections, from->sections, from->bytes);
    to->bytes = from->bytes;
    if (from->module_count &&
        !profile_grow((void **)&to->modules, 0, from->module_count, sizeof *to->modules))
        return -ENOMEM;
    to->module_count = from->module_count;
    for (unsigned i = 0; i < from->module_count; i++)
        to->modules[i] = from->modules[i] < count ? (uint16_t)map[from->modules[i]] : 0;
    return 0;
}
