// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_LINE_TABLE_H
#define CAIRN_SYMBOL_DWARF_LINE_TABLE_H

// Answers of lines_resolve() as bytes that can be kept in a file:
//
//   head | entries, by offset | frames | text
//
// An entry names a run of frames, a frame its texts. Bytes that were read are claims: their sizes
// are checked once, and each reference when it is followed.

#include "symbol/dwarf/lines.h"

// The files and the version of the code that the answers were made from. Bytes of another key are
// of no use.
struct linetable_key {
    uint64_t tool_bytes, tool_time_ns;
    uint64_t file_bytes, file_time_ns;
    uint64_t build_id_bytes;
    uint8_t build_id[BUILD_ID_LIMIT];
};

struct linetable {
    const struct linetable_entry *entries;
    const struct linetable_frame *frames;
    const char *text; // ends with a NUL
    size_t entry_count, frame_count, text_bytes;
};

// False if the bytes are damaged or have another key. They must be aligned to 8 bytes, and stay as
// long as the table.
bool linetable_read(struct linetable *table, const void *bytes, size_t size,
                    const struct linetable_key *key);
// Answers the query if its offset is known. Its pointers lead into the pool.
bool linetable_find(const struct linetable *table, struct lines_query *query,
                    struct text_pool *pool);
// The offset of one entry.
uint64_t linetable_offset(const struct linetable *table, size_t index);

// The bytes for these answers, which are sorted by offset. To be freed; NULL if they are too many.
void *linetable_write(const struct linetable_key *key, const struct lines_query *queries,
                      size_t count, size_t *size);

#endif
