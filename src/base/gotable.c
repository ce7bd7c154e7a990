// SPDX-License-Identifier: MIT
#include "base/gotable.h"
#include <string.h>

#define WORD 8                  // bytes of a pointer: programs of 64 bits alone
#define LONGEST_LIST (1u << 18) // values; the largest functions have some ten thousand
#define ALIGNMENT 32            // of tables
#define INLINE_LIST 2           // the position of such a list among a function's further ones
#define INLINE_DATA 3           // that of inlined calls among a function's further data
#define NONE UINT32_MAX

static bool read_u32(const struct gotable *table, uint64_t at, uint32_t *value)
{
    if (at > table->bytes || table->bytes - at < sizeof *value)
        return false;
    memcpy(value, table->data + at, sizeof *value);
    return true;
}

static bool read_word(const struct gotable *table, uint64_t at, uint64_t *value)
{
    if (at > table->bytes || table->bytes - at < sizeof *value)
        return false;
    memcpy(value, table->data + at, sizeof *value);
    return true;
}

static bool read_layout(struct gotable *table)
{
    static const uint32_t magic[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
    uint32_t found;
    if (!read_u32(table, 0, &found) || table->bytes < 16)
        return false;
    for (unsigned i = 0; i < sizeof magic / sizeof *magic; i++)
        if (found == magic[i]) {
            table->layout = (enum gotable_layout)i;
            table->quantum = table->data[6];
            return table->data[4] == 0 && table->data[5] == 0 && table->data[7] == WORD &&
                   (table->quantum == 1 || table->quantum == 2 || table->quantum == 4);
        }
    return false;
}

// The parts follow the counts of functions and files, and since 1.18 the address of the text.
static bool read_parts(struct gotable *table)
{
    size_t *const parts[] = {&table->names, &table->units, &table->files, &table->values,
                             &table->functions};
    uint64_t at = 8 + 2 * WORD, offset;
    if (table->layout >= GOTABLE_1_18) {
        table->text_at = at;
        if (!read_word(table, at, &table->text))
            return false;
        at += WORD;
    }
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++, at += WORD) {
        if (!read_word(table, at, &offset) || offset > table->bytes)
            return false;
        *parts[i] = offset;
    }
    return true;
}

static unsigned entry_bytes(const struct gotable *table)
{
    return table->layout >= GOTABLE_1_18 ? 8 : 2 * WORD;
}

bool gotable_open(struct gotable *table, const void *data, size_t bytes)
{
    *table = (struct gotable){.data = data, .bytes = bytes};
    if (!read_layout(table) || !read_word(table, 8, &table->count))
        return false;
    if (table->layout == GOTABLE_1_2) {
        uint32_t files;
        table->functions = 8 + WORD;
        if (table->count > bytes / (2 * WORD) ||
            !read_u32(table, table->functions + table->count * 2 * WORD + WORD, &files))
            return false;
        table->files = files;
    } else if (!read_parts(table)) {
        return false;
    }
    // One address more than functions: where the last one ends.
    return table->count > 0 && table->count < (bytes - table->functions) / entry_bytes(table);
}

size_t gotable_search(struct gotable *table, const void *data, size_t bytes, uint64_t address)
{
    const unsigned char *from = data;
    for (size_t at = -address % ALIGNMENT; at < bytes && bytes - at >= 16; at += ALIGNMENT)
        if (from[at + 3] == 0xff && from[at + 7] == WORD &&
            gotable_open(table, from + at, bytes - at))
            return at;
    return SIZE_MAX;
}

// An entry of the list of functions: where it begins, and where its record is.
static bool read_entry(const struct gotable *table, uint64_t index, uint64_t *start,
                       uint64_t *record)
{
    uint64_t at = table->functions + index * entry_bytes(table);
    if (table->layout < GOTABLE_1_18)
        return read_word(table, at, start) &&
               (index == table->count || read_word(table, at + WORD, record));
    uint32_t low, high = 0;
    if (!read_u32(table, at, &low) || (index < table->count && !read_u32(table, at + 4, &high)))
        return false;
    *start = low;
    *record = high;
    return true;
}

static void read_further(const struct gotable *table, uint64_t at, uint32_t lists, uint8_t data,
                         struct gotable_function *function)
{
    uint32_t offset;
    if (lists > INLINE_LIST && !read_u32(table, at + 4 * INLINE_LIST, &function->inline_list))
        function->inline_list = 0;
    if (data > INLINE_DATA && table->layout >= GOTABLE_1_18 &&
        read_u32(table, at + 4 * ((uint64_t)lists + INLINE_DATA), &offset) && offset != NONE) {
        function->inlined_calls = offset;
        function->has_inlined_calls = true;
    }
}

// A record: entry, name, arguments, return of deferred calls, lists of stack, file and line, number
// of further lists, unit, [first line,] kind, flags, -, number of further data.
static bool read_record(const struct gotable *table, uint64_t record,
                        struct gotable_function *function)
{
    uint64_t base = table->layout == GOTABLE_1_2 ? 0 : table->functions;
    uint64_t at = base + record + (table->layout >= GOTABLE_1_18 ? 4 : WORD);
    uint32_t lists;
    if (record > table->bytes || !read_u32(table, at, &function->name) ||
        !read_u32(table, at + 12, &function->stack_list) ||
        !read_u32(table, at + 16, &function->file_list) ||
        !read_u32(table, at + 20, &function->line_list) || !read_u32(table, at + 24, &lists))
        return false;
    if (table->layout == GOTABLE_1_2)
        return true;
    uint32_t last;
    uint64_t end = at + 28 + (table->layout == GOTABLE_1_20 ? 8 : 4);
    if (!read_u32(table, at + 28, &function->unit) || !read_u32(table, end, &last))
        return false;
    // Go 1.16 had no flags: there is padding, all zeroes.
    function->flags = last >> 8 & (GOTABLE_TOP | GOTABLE_MOVES_STACK);
    read_further(table, end + 4, lists, (uint8_t)(last >> 24), function);
    return true;
}

bool gotable_find(const struct gotable *table, uint64_t pc, struct gotable_function *function)
{
    uint64_t low = 0, high = table->count, start, end, record, unused;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (!read_entry(table, middle, &start, &record))
            return false;
        if (start <= pc)
            low = middle;
        else
            high = middle;
    }
    if (!read_entry(table, low, &start, &record) || !read_entry(table, low + 1, &end, &unused) ||
        pc < start || pc >= end)
        return false;
    *function = (struct gotable_function){.start = start, .end = end};
    return read_record(table, record, function);
}

static bool read_leb128(const unsigned char **at, const unsigned char *end, uint32_t *value)
{
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 35; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= shift < 32 ? (uint32_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

bool gotable_value(const struct gotable *table, const struct gotable_function *function,
                   uint32_t list, uint64_t pc, int32_t *value)
{
    uint64_t first = (table->layout == GOTABLE_1_2 ? 0 : (uint64_t)table->values) + list;
    if (list == 0 || first >= table->bytes)
        return false;
    const unsigned char *at = table->data + first, *end = table->data + table->bytes;
    uint64_t until = function->start;
    uint32_t sum = UINT32_MAX; // -1: before the first difference
    for (unsigned i = 0; i < LONGEST_LIST; i++) {
        uint32_t change, distance;
        if (!read_leb128(&at, end, &change) || (change == 0 && i > 0) ||
            !read_leb128(&at, end, &distance))
            return false;
        sum += change >> 1 ^ -(change & 1);
        until += (uint64_t)distance * table->quantum;
        if (pc < until) {
            *value = (int32_t)sum;
            return true;
        }
    }
    return false;
}

static const char *text_at(const struct gotable *table, uint64_t at)
{
    if (at >= table->bytes || !memchr(table->data + at, '\0', table->bytes - at))
        return NULL;
    return (const char *)table->data + at;
}

const char *gotable_name(const struct gotable *table, uint32_t offset)
{
    return text_at(table, (uint64_t)table->names + offset);
}

bool gotable_is_named(const struct gotable *table, uint32_t offset, const char *name)
{
    for (uint64_t at = (uint64_t)table->names + offset; at < table->bytes; at++, name++) {
        if (table->data[at] != (unsigned char)*name)
            return false;
        if (*name == '\0')
            return true;
    }
    return false;
}

const char *gotable_file(const struct gotable *table, const struct gotable_function *function,
                         int32_t number)
{
    uint32_t offset;
    if (number < 0)
        return NULL;
    if (table->layout == GOTABLE_1_2)
        return number > 0 && read_u32(table, table->files + 4 * (uint64_t)number, &offset)
                   ? text_at(table, offset)
                   : NULL;
    uint64_t at = table->units + 4 * ((uint64_t)function->unit + (uint64_t)number);
    if (!read_u32(table, at, &offset) || offset == NONE)
        return NULL;
    return text_at(table, (uint64_t)table->files + offset);
}
