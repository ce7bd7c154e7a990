// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_CHUNKS_CHUNK_H
#define CAIRN_PROFILE_CHUNKS_CHUNK_H

// The container: a file head, then chunks, each with a checksum of its own (docs/format.md).
//
//   | "cairn\r\n\x1a" major minor sum | mark type flags stored raw checksum | payload | mark ... |
//
// A reader that meets a damaged chunk looks for the next mark whose checksum holds, and continues
// there.

#include "profile/chunks/bytes.h"

enum {
    FORMAT_MAJOR = 1,  // another: older readers cannot make sense of it, and refuse
    FORMAT_MINOR = 17, // another: older readers miss something, which they skip
    FILE_HEAD_BYTES = 16,
    CHUNK_HEAD_BYTES = 24,
    CHUNK_MOST_RAW = 64 << 20, // a larger payload is damage
};

// The limits of what a file may unpack to, so that a small one cannot take all memory: a fixed part
// (more than a million nodes, as alike as those of a deep recursion), and so many times its size.
// Recordings unpack to 1 to 13 times their size. Where nodes are more alike than that, the writer
// adds filler, and stays well below what a reader accepts.
enum {
    UNPACK_FREE = 8 << 20,
    UNPACK_RATIO = 64,
    UNPACK_RATIO_WRITTEN = 32,
    // Of many processes and trees, which take a reader many times the memory of their bytes.
    UNPACK_RATIO_PROCESSES = 2,
    MANY_PROCESSES_RAW = 16 << 10,
};

enum chunk_type {
    CHUNK_FILLER, // means nothing, as do zeroes at the end of the file
    CHUNK_SESSION,
    CHUNK_MODULES,
    CHUNK_PROCESSES,
    CHUNK_TREES,
    CHUNK_NODES,
    CHUNK_VALUES,
    CHUNK_NOTES,
    CHUNK_STATE,
    CHUNK_RUNS,
    CHUNK_ANEW,
    CHUNK_PHASES,
    CHUNK_ENCODINGS,
    CHUNK_ALLOCATIONS,
    CHUNK_CONTEXTS,
    CHUNK_OVERHEAD,
    CHUNK_KERNEL,
    CHUNK_NAMES,
    CHUNK_CREATIONS,
    CHUNK_TIMELINE,
    CHUNK_PLACES,
    CHUNK_BLAMES,
    CHUNK_RANKS,
    CHUNK_TYPES,
};

enum { CHUNK_ZSTD = 1 }; // flag: the payload is one zstd frame

void chunk_put_file_head(struct bytes *out);

// Appends payload as a chunk, compressed if that is smaller. Nothing for an empty payload.
void chunk_put(struct bytes *out, enum chunk_type type, const struct bytes *payload, int level);

enum head_verdict { HEAD_GOOD, HEAD_DAMAGED, HEAD_NEWER, HEAD_FOREIGN };

enum head_verdict chunk_check_file_head(const uint8_t *data, size_t size);

struct chunk {
    unsigned type;
    struct cursor payload; // valid until the next chunk is read
    size_t stored;         // bytes in the file
};

struct chunk_scan {
    const uint8_t *data;
    size_t size, at;
    uint64_t lost_bytes; // of damaged chunks; a part cut off at the end does not count
    unsigned lost_places;
    bool cut; // the last chunk is not whole
    bool out_of_memory;
    bool too_large;           // it unpacks to more than a file of its size may
    uint64_t unpack_budget;   // bytes that may still be unpacked
    uint64_t checksum_budget; // bounds the work on a file that is full of false marks
    struct bytes raw;
};

void chunk_scan_start(struct chunk_scan *scan, const uint8_t *data, size_t size);
bool chunk_next(struct chunk_scan *scan, struct chunk *chunk);
void chunk_scan_end(struct chunk_scan *scan);

#endif
