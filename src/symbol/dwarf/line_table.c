// SPDX-License-Identifier: MIT
#include "symbol/dwarf/line_table.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct linetable_head {
    char magic[8];
    uint64_t checksum; // of all that follows
    struct linetable_key key;
    uint64_t entry_count, frame_count, text_bytes;
};

struct linetable_entry {
    uint64_t offset;
    uint64_t function;
    uint32_t first_frame, frame_count;
    uint64_t function_known;
};

// Texts by their place in the text, plus 1; 0: none.
struct linetable_frame {
    uint32_t function, file, line;
};

static const char magic[8] = "cairnLT1";

// As deep as inlining is followed, and some more. No profile has more than a million hot addresses.
enum { DEEPEST = 1024, MOST_ENTRIES = 1 << 20, MOST_FRAMES = 1 << 24, MOST_TEXT = 1 << 28 };

static uint64_t checksum_of(const void *bytes, size_t size)
{
    size_t skipped = offsetof(struct linetable_head, key);
    return pool_hash((const char *)bytes + skipped, size - skipped);
}

bool linetable_read(struct linetable *table, const void *bytes, size_t size,
                    const struct linetable_key *key)
{
    const struct linetable_head *head = bytes;
    *table = (struct linetable){0};
    if (size < sizeof *head || memcmp(head->magic, magic, sizeof magic) != 0 ||
        memcmp(&head->key, key, sizeof *key) != 0)
        return false;
    if (head->entry_count > MOST_ENTRIES || head->frame_count > MOST_FRAMES ||
        head->text_bytes > MOST_TEXT)
        return false;
    size_t expected = sizeof *head + head->entry_count * sizeof *table->entries +
                      head->frame_count * sizeof *table->frames + head->text_bytes;
    if (size != expected || head->checksum != checksum_of(bytes, size))
        return false;
    const struct linetable_entry *entries = (const void *)(head + 1);
    const struct linetable_frame *frames = (const void *)(entries + head->entry_count);
    const char *text = (const char *)(frames + head->frame_count);
    if (head->text_bytes && text[head->text_bytes - 1] != '\0')
        return false;
    *table = (struct linetable){.entries = entries,
                                .frames = frames,
                                .text = text,
                                .entry_count = head->entry_count,
                                .frame_count = head->frame_count,
                                .text_bytes = head->text_bytes};
    return true;
}

uint64_t linetable_offset(const struct linetable *table, size_t index)
{
    return table->entries[index].offset;
}

static const struct linetable_entry *find_entry(const struct linetable *table, uint64_t offset)
{
    size_t low = 0, high = table->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->entry_count && table->entries[low].offset == offset ? &table->entries[low]
                                                                            : NULL;
}

static bool valid_text(const struct linetable *table, uint32_t reference)
{
    return reference <= table->text_bytes;
}

static const char *text_at(const struct linetable *table, uint32_t reference,
                           struct text_pool *pool)
{
    return reference ? pool_string(pool, table->text + reference - 1) : NULL;
}

bool linetable_find(const struct linetable *table, struct lines_query *query,
                    struct text_pool *pool)
{
    const struct linetable_entry *entry = find_entry(table, query->offset);
    if (!entry || entry->frame_count > DEEPEST || entry->frame_count > table->frame_count ||
        entry->first_frame > table->frame_count - entry->frame_count)
        return false;
    const struct linetable_frame *frames = &table->frames[entry->first_frame];
    for (uint32_t i = 0; i < entry->frame_count; i++)
        if (!valid_text(table, frames[i].function) || !valid_text(table, frames[i].file))
            return false;
    query->count = entry->frame_count;
    query->frames =
        query->count ? pool_take(pool, query->count * sizeof *query->frames) : query->frames;
    for (uint32_t i = 0; i < entry->frame_count; i++)
        query->frames[i] =
            (struct symbol_frame){.function = text_at(table, frames[i].function, pool),
                                  .file = text_at(table, frames[i].file, pool),
                                  .line = frames[i].line};
    query->function = entry->function;
    query->function_known = entry->function_known != 0;
    return true;
}

// The texts that are written, each once: those of a pool are equal if their addresses are.
struct texts {
    const char **list; // sorted by address
    uint32_t *places;
    size_t count;
    uint64_t bytes;
};

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t) * (const char *const *)left,
              b = (uintptr_t) * (const char *const *)right;
    return (a > b) - (a < b);
}

static void collect_texts(struct texts *texts, const struct lines_query *queries, size_t count,
                          size_t frame_count)
{
    texts->list = memory_array(2 * frame_count, sizeof *texts->list);
    texts->places = memory_array(2 * frame_count, sizeof *texts->places);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        for (unsigned f = 0; f < queries[i].count; f++) {
            const struct symbol_frame *frame = &queries[i].frames[f];
            if (frame->function)
                texts->list[used++] = frame->function;
            if (frame->file)
                texts->list[used++] = frame->file;
        }
    qsort(texts->list, used, sizeof *texts->list, by_address);
    for (size_t i = 0; i < used; i++) {
        if (texts->count && texts->list[texts->count - 1] == texts->list[i])
            continue;
        texts->places[texts->count] = (uint32_t)texts->bytes + 1;
        texts->list[texts->count++] = texts->list[i];
        texts->bytes += strlen(texts->list[i]) + 1;
        if (texts->bytes > MOST_TEXT)
            return;
    }
}

static uint32_t place_of(const struct texts *texts, const char *text)
{
    const char **found =
        text ? bsearch(&text, texts->list, texts->count, sizeof *texts->list, by_address) : NULL;
    return found ? texts->places[found - texts->list] : 0;
}

static void fill(struct linetable_head *head, const struct lines_query *queries,
                 const struct texts *texts)
{
    struct linetable_entry *entries = (void *)(head + 1);
    struct linetable_frame *frame = (void *)(entries + head->entry_count);
    char *text = (char *)(frame + head->frame_count);
    uint32_t first = 0;
    for (size_t i = 0; i < head->entry_count; i++) {
        entries[i] = (struct linetable_entry){.offset = queries[i].offset,
                                              .function = queries[i].function,
                                              .first_frame = first,
                                              .frame_count = queries[i].count,
                                              .function_known = queries[i].function_known};
        first += queries[i].count;
        for (unsigned f = 0; f < queries[i].count; f++)
            *frame++ =
                (struct linetable_frame){.function = place_of(texts, queries[i].frames[f].function),
                                         .file = place_of(texts, queries[i].frames[f].file),
                                         .line = queries[i].frames[f].line};
    }
    for (size_t i = 0; i < texts->count; i++)
        text = stpcpy(text, texts->list[i]) + 1;
}

void *linetable_write(const struct linetable_key *key, const struct lines_query *queries,
                      size_t count, size_t *size)
{
    size_t frame_count = 0;
    for (size_t i = 0; i < count; i++)
        frame_count += queries[i].count;
    if (count > MOST_ENTRIES || frame_count > MOST_FRAMES)
        return NULL;
    struct texts texts = {0};
    collect_texts(&texts, queries, count, frame_count);
    struct linetable_head *head = NULL;
    if (texts.bytes <= MOST_TEXT) {
        *size = sizeof *head + count * sizeof(struct linetable_entry) +
                frame_count * sizeof(struct linetable_frame) + texts.bytes;
        head = memory_checked(calloc(1, *size));
        memcpy(head->magic, magic, sizeof magic);
        head->key = *key;
        head->entry_count = count;
        head->frame_count = frame_count;
        head->text_bytes = texts.bytes;
        fill(head, queries, &texts);
        head->checksum = checksum_of(head, *size);
    }
    free(texts.list);
    free(texts.places);
    return head;
}
