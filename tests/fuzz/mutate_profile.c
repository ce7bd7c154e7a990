// SPDX-License-Identifier: MIT
// How libFuzzer changes profiles. A chunk is compressed and has a checksum, so a flipped bit ends
// at the sum, and no parser is reached: most mutations therefore change the payload of one chunk,
// or the list of chunks, and compress and sum it again. A malicious writer would do the same.

#include "../random.h"
#include "profile/chunks/chunk.h"
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed);

enum { PAYLOAD_MOST = 1 << 18 };

static unsigned count_chunks(const uint8_t *data, size_t size)
{
    struct chunk_scan scan;
    struct chunk chunk;
    unsigned count = 0;
    chunk_scan_start(&scan, data, size);
    while (chunk_next(&scan, &chunk))
        count++;
    chunk_scan_end(&scan);
    return count;
}

static void put_mutated(struct bytes *out, const struct chunk *chunk)
{
    static uint8_t payload[PAYLOAD_MOST];
    size_t size = cursor_left(&chunk->payload);
    if (size > sizeof payload)
        size = sizeof payload;
    memcpy(payload, chunk->payload.at, size);
    size = LLVMFuzzerMutate(payload, size, sizeof payload);
    struct bytes changed = {0};
    bytes_put(&changed, payload, size);
    unsigned type =
        next_random() % 16 ? chunk->type : (unsigned)(next_random() % (CHUNK_TYPES + 1));
    chunk_put(out, type, &changed, 1);
    bytes_free(&changed);
}

static void put_chunk(struct bytes *out, const struct chunk *chunk)
{
    struct bytes payload = {0};
    bytes_put(&payload, chunk->payload.at, cursor_left(&chunk->payload));
    chunk_put(out, chunk->type, &payload, 1);
    bytes_free(&payload);
}

enum change { MUTATE_PAYLOAD, LEAVE_OUT, PUT_TWICE, PUT_DAMAGE_BEHIND, CHANGES };

static struct bytes rebuild(const uint8_t *data, size_t size, unsigned chosen, enum change change)
{
    struct bytes out = {0};
    struct chunk_scan scan;
    struct chunk chunk;
    chunk_put_file_head(&out);
    chunk_scan_start(&scan, data, size);
    for (unsigned i = 0; chunk_next(&scan, &chunk); i++) {
        if (i == chosen && change == MUTATE_PAYLOAD) {
            put_mutated(&out, &chunk);
            continue;
        }
        if (i == chosen && change == LEAVE_OUT)
            continue;
        put_chunk(&out, &chunk);
        if (i == chosen && change == PUT_TWICE)
            put_chunk(&out, &chunk);
        if (i == chosen && change == PUT_DAMAGE_BEHIND)
            bytes_put(&out, "damage", 6);
    }
    chunk_scan_end(&scan);
    return out;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    const unsigned chunks = count_chunks(data, size);
    if (chunks == 0 || next_random() % 16 == 0)
        return LLVMFuzzerMutate(data, size, limit);
    const enum change change = next_random() % 4 ? MUTATE_PAYLOAD : next_random() % CHANGES;
    struct bytes changed = rebuild(data, size, (unsigned)(next_random() % chunks), change);
    if (changed.size <= limit) {
        size = changed.size;
        memcpy(data, changed.data, size);
    }
    bytes_free(&changed);
    return size;
}
