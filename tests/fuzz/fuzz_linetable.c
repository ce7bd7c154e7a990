// SPDX-License-Identifier: MIT
// Damaged files of the cache of lines: nothing is read outside of them, and every name is a text.

#include "symbol/dwarf/line_table.h"
#include <stdlib.h>
#include <string.h>

static volatile size_t sum; // of what was found: so that the compiler leaves nothing out

static void look_at(const struct linetable *table)
{
    struct text_pool pool = {0};
    for (size_t i = 0; i < table->entry_count; i++) {
        struct lines_query query = {.offset = linetable_offset(table, i)};
        if (!linetable_find(table, &query, &pool))
            continue;
        for (unsigned f = 0; f < query.count; f++) {
            sum += query.frames[f].function ? strlen(query.frames[f].function) : 0;
            sum += query.frames[f].file ? strlen(query.frames[f].file) : 0;
        }
    }
    pool_free(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct linetable_key key = {.build_id_bytes = 20};
    struct linetable table;
    char *bytes = malloc(size ? size : 1); // aligned, and ends where the input ends
    if (!bytes)
        abort();
    memcpy(bytes, data, size);
    if (size > 16) { // a mutation that has the wrong checksum says nothing
        uint64_t checksum = pool_hash(bytes + 16, size - 16);
        memcpy(bytes + 8, &checksum, sizeof checksum);
    }
    if (linetable_read(&table, bytes, size, &key))
        look_at(&table);
    free(bytes);
    return 0;
}
