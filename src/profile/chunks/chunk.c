// SPDX-License-Identifier: MIT
#include "profile/chunks/chunk.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

// Not zero, so that zeroes are no chunk; not text, so that text is none either.
static const uint8_t chunk_mark[4] = {0xc4, 'c', 'k', 0xa1};
static const uint8_t file_magic[8] = {'c', 'a', 'i', 'r', 'n', '\r', '\n', 0x1a};

enum { CHECKED_HEAD_BYTES = 16 }; // of a chunk's head, under the checksum

void chunk_put_file_head(struct bytes *out)
{
    size_t start = out->size;
    bytes_put(out, file_magic, sizeof file_magic);
    bytes_put_fixed(out, FORMAT_MAJOR, 2);
    bytes_put_fixed(out, FORMAT_MINOR, 2);
    if (!out->failed)
        bytes_put_fixed(out, (uint32_t)XXH3_64bits(out->data + start, 12), 4);
}

enum head_verdict chunk_check_file_head(const uint8_t *data, size_t size)
{
    if (size < FILE_HEAD_BYTES || memcmp(data, file_magic, sizeof file_magic) != 0)
        return HEAD_FOREIGN;
    struct cursor cursor = {data + sizeof file_magic, data + FILE_HEAD_BYTES, false};
    unsigned major = (unsigned)cursor_fixed(&cursor, 2);
    cursor_fixed(&cursor, 2);
    if (cursor_fixed(&cursor, 4) != (uint32_t)XXH3_64bits(data, 12))
        return HEAD_DAMAGED;
    return major > FORMAT_MAJOR ? HEAD_NEWER : HEAD_GOOD;
}

static uint64_t checksum(const uint8_t *head, const uint8_t *payload, size_t stored)
{
    // The payload's sum is seeded with the head's: a changed length or type shows as well.
    return XXH3_64bits_withSeed(payload, stored, XXH3_64bits(head, CHECKED_HEAD_BYTES));
}

// Compresses onto the end of out; 0 if that failed or is not smaller.
static size_t compress_onto(struct bytes *out, const struct bytes *payload, int level)
{
    struct bytes packed = {.capacity = ZSTD_compressBound(payload->size)};
    packed.data = malloc(packed.capacity);
    if (!packed.data)
        return 0;
    size_t size = ZSTD_compress(packed.data, packed.capacity, payload->data, payload->size, level);
    if (ZSTD_isError(size) || size >= payload->size)
        size = 0;
    bytes_put(out, packed.data, size);
    bytes_free(&packed);
    return size;
}

enum { STORED = -1 }; // instead of a level of compression

static void put_chunk(struct bytes *out, enum chunk_type type, const struct bytes *payload,
                      int level)
{
    out->failed |= payload->failed || payload->size > CHUNK_MOST_RAW;
    if (payload->size == 0 || out->failed)
        return;
    size_t start = out->size;
    static const uint8_t blank[CHUNK_HEAD_BYTES];
    bytes_put(out, blank, sizeof blank);
    size_t stored = level == STORED ? 0 : compress_onto(out, payload, level);
    unsigned flags = stored ? CHUNK_ZSTD : 0;
    if (!stored) {
        stored = payload->size;
        bytes_put(out, payload->data, payload->size);
    }
    if (out->failed)
        return;
    struct bytes head = {.data = out->data + start, .capacity = CHUNK_HEAD_BYTES};
    bytes_put(&head, chunk_mark, sizeof chunk_mark);
    bytes_put_fixed(&head, type, 2);
    bytes_put_fixed(&head, flags, 2);
    bytes_put_fixed(&head, stored, 4);
    bytes_put_fixed(&head, payload->size, 4);
    bytes_put_fixed(&head, checksum(head.data, head.data + CHUNK_HEAD_BYTES, stored), 8);
}

// The bytes that a payload takes in the file at least. Only merges write thousands of processes in
// one chunk; the few of others come with enough bytes of their own.
static size_t least_stored(enum chunk_type type, size_t raw)
{
    const bool of_processes = type == CHUNK_PROCESSES || type == CHUNK_TREES;
    return raw / (of_processes && raw >= MANY_PROCESSES_RAW ? UNPACK_RATIO_PROCESSES
                                                            : UNPACK_RATIO_WRITTEN);
}

void chunk_put(struct bytes *out, enum chunk_type type, const struct bytes *payload, int level)
{
    const size_t start = out->size;
    put_chunk(out, type, payload, level);
    const size_t least = least_stored(type, payload->size), stored = out->size - start;
    if (out->failed || stored >= least)
        return;
    // A reader would take it for a file that is made to exhaust memory.
    struct bytes filler = {.size = least - stored, .data = calloc(least - stored, 1)};
    out->failed |= !filler.data;
    put_chunk(out, CHUNK_FILLER, &filler, STORED);
    bytes_free(&filler);
}

void chunk_scan_start(struct chunk_scan *scan, const uint8_t *data, size_t size)
{
    *scan = (struct chunk_scan){.data = data, .size = size, .at = FILE_HEAD_BYTES};
    scan->checksum_budget = (uint64_t)size * 16 + (1 << 20);
    scan->unpack_budget = (uint64_t)size * UNPACK_RATIO + UNPACK_FREE;
}

void chunk_scan_end(struct chunk_scan *scan)
{
    bytes_free(&scan->raw);
}

struct chunk_head {
    unsigned type, flags;
    size_t stored, raw;
};

// Whether a whole and sound chunk begins at `at`.
static bool sound_chunk(struct chunk_scan *scan, size_t at, struct chunk_head *head)
{
    const uint8_t *data = scan->data + at;
    if (scan->size - at < CHUNK_HEAD_BYTES || memcmp(data, chunk_mark, sizeof chunk_mark) != 0)
        return false;
    struct cursor cursor = {data + sizeof chunk_mark, data + CHUNK_HEAD_BYTES, false};
    head->type = (unsigned)cursor_fixed(&cursor, 2);
    head->flags = (unsigned)cursor_fixed(&cursor, 2);
    head->stored = cursor_fixed(&cursor, 4);
    head->raw = cursor_fixed(&cursor, 4);
    uint64_t expected = cursor_fixed(&cursor, 8);
    if (head->stored > scan->size - at - CHUNK_HEAD_BYTES || head->raw > CHUNK_MOST_RAW ||
        head->stored > scan->checksum_budget)
        return false;
    scan->checksum_budget -= head->stored;
    return checksum(data, data + CHUNK_HEAD_BYTES, head->stored) == expected;
}

static bool unpack(struct chunk_scan *scan, size_t at, const struct chunk_head *head,
                   struct chunk *chunk)
{
    const uint8_t *stored = scan->data + at + CHUNK_HEAD_BYTES;
    chunk->type = head->type;
    chunk->stored = CHUNK_HEAD_BYTES + head->stored;
    chunk->payload = (struct cursor){stored, stored + head->stored, false};
    if (!(head->flags & CHUNK_ZSTD))
        return true;
    if (head->raw > scan->unpack_budget) {
        scan->too_large = true;
        return false;
    }
    scan->unpack_budget -= head->raw;
    if (scan->raw.capacity < head->raw) {
        bytes_free(&scan->raw);
        scan->raw.data = malloc(head->raw);
        if (!scan->raw.data) {
            scan->out_of_memory = true;
            return false;
        }
        scan->raw.capacity = head->raw;
    }
    size_t size = ZSTD_decompress(scan->raw.data, head->raw, stored, head->stored);
    chunk->payload = (struct cursor){scan->raw.data, scan->raw.data + head->raw, false};
    return !ZSTD_isError(size) && size == head->raw && size != 0;
}

// Where the next sound chunk begins after a damaged place; the file's size if there is none.
static size_t find_chunk(struct chunk_scan *scan, size_t at, struct chunk_head *head)
{
    while (at < scan->size) {
        const uint8_t *mark =
            memmem(scan->data + at, scan->size - at, chunk_mark, sizeof chunk_mark);
        if (!mark)
            break;
        at = (size_t)(mark - scan->data);
        if (sound_chunk(scan, at, head))
            return at;
        at++;
    }
    return scan->size;
}

static void lose(struct chunk_scan *scan, size_t bytes)
{
    scan->lost_bytes += bytes;
    scan->lost_places++;
}

bool chunk_next(struct chunk_scan *scan, struct chunk *chunk)
{
    while (!scan->out_of_memory && !scan->too_large) {
        size_t at = scan->at;
        while (at < scan->size && scan->data[at] == 0)
            at++;
        if (at >= scan->size)
            return false; // zeroes up to the end are filler: a tail that was never written
        if (at != scan->at)
            lose(scan, at - scan->at); // a writer leaves no zeroes between chunks
        struct chunk_head head;
        if (!sound_chunk(scan, at, &head)) {
            size_t next = find_chunk(scan, at + 1, &head);
            if (next == scan->size) { // nothing sound follows: the end was cut off
                scan->cut = true;
                scan->at = next;
                return false;
            }
            lose(scan, next - at);
            at = next;
        }
        scan->at = at + CHUNK_HEAD_BYTES + head.stored;
        if (unpack(scan, at, &head, chunk)) {
            if (chunk->type != CHUNK_FILLER)
                return true;
        } else if (!scan->out_of_memory && !scan->too_large) {
            lose(scan, CHUNK_HEAD_BYTES + head.stored);
        }
    }
    return false;
}
