// SPDX-License-Identifier: MIT
#include "make_gotable.h"
#include <string.h>

struct writing {
    unsigned char *bytes;
    size_t at;
    enum gotable_layout layout;
};

static void put(struct writing *to, uint64_t value, unsigned bytes)
{
    memcpy(to->bytes + to->at, &value, bytes); // the machine's own order, which is Go's here
    to->at += bytes;
}

static size_t put_bytes(struct writing *to, const void *bytes, size_t count)
{
    size_t at = to->at;
    memcpy(to->bytes + at, bytes, count);
    to->at += count;
    return at;
}

static size_t put_text(struct writing *to, const char *text)
{
    return put_bytes(to, text, strlen(text) + 1);
}

struct parts {
    size_t first, second; // names
    size_t stack, line_first, line_second, file_first, file_second, top;
    size_t a, b; // files
    size_t names, units, files, values;
};

static void put_lists(struct writing *to, struct parts *parts)
{
    // Pairs of a difference (doubled; odd if negative, less one) and for how many bytes; from -1.
    static const unsigned char stack[] = {2, 5, 48, 0x3b, 0};           // 0 for 5, then 24
    static const unsigned char lines[] = {22, 9, 2, 0x37, 0};           // 10 for 9, then 11
    static const unsigned char far[] = {0xda, 0x04, 16, 0};             // 300
    static const unsigned char one[] = {4, 64, 0}, zero[] = {2, 64, 0}; // 1; 0
    parts->values = to->at;
    put(to, 0, 1); // no list is at 0
    parts->stack = put_bytes(to, stack, sizeof stack);
    parts->line_first = put_bytes(to, lines, sizeof lines);
    parts->line_second = put_bytes(to, far, sizeof far);
    parts->file_first = put_bytes(to, to->layout == GOTABLE_1_2 ? one : zero, 3);
    parts->file_second =
        to->layout == GOTABLE_1_2 ? put_bytes(to, "\6\20", 3) : put_bytes(to, one, 3);
    parts->top = put_bytes(to, zero, 3);
}

static size_t put_record(struct writing *to, const struct parts *parts, bool second)
{
    bool old = to->layout == GOTABLE_1_2;
    size_t at = to->at, values = old ? 0 : parts->values, names = old ? 0 : parts->names;
    uint64_t start = second ? MADE_SECOND : 0;
    put(to, to->layout >= GOTABLE_1_18 ? start : MADE_TEXT + start,
        to->layout >= GOTABLE_1_18 ? 4 : 8);
    put(to, (second ? parts->second : parts->first) - names, 4);
    put(to, 0, 8); // arguments, deferred calls
    put(to, (second ? parts->top : parts->stack) - values, 4);
    put(to, (second ? parts->file_second : parts->file_first) - values, 4);
    put(to, (second ? parts->line_second : parts->line_first) - values, 4);
    put(to, 0, 4); // further lists
    if (old)
        return at;
    put(to, 0, 4); // unit
    if (to->layout == GOTABLE_1_20)
        put(to, 10, 4); // first line
    put(to, second ? GOTABLE_TOP << 8 : 0, 4);
    return at;
}

static void put_entry(struct writing *to, uint64_t start, uint64_t record)
{
    unsigned bytes = to->layout >= GOTABLE_1_18 ? 4 : 8;
    put(to, to->layout >= GOTABLE_1_18 ? start : MADE_TEXT + start, bytes);
    put(to, record, bytes);
}

static void put_files(struct writing *to, struct parts *parts)
{
    if (to->layout == GOTABLE_1_2) {
        parts->a = put_text(to, "a.go");
        parts->b = put_text(to, "b.go");
        parts->files = to->at;
        put(to, 3, 4); // the count, in the place of a file 0
        put(to, parts->a, 4);
        put(to, parts->b, 4);
        return;
    }
    parts->units = to->at;
    put(to, 0, 4);
    put(to, 5, 4);
    parts->files = to->at;
    put_text(to, "a.go");
    put_text(to, "b.go");
}

size_t make_gotable(enum gotable_layout layout, unsigned char *bytes)
{
    static const uint32_t magic[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
    struct writing to = {.bytes = bytes, .layout = layout};
    struct parts parts;
    memset(bytes, 0, MADE_BYTES);
    put(&to, magic[layout], 4);
    put(&to, UINT32_C(0x08010000), 4);
    put(&to, 2, 8); // functions
    size_t header = to.at;
    to.at = 128; // room for the rest of the header, or for the functions of the oldest layout
    parts.names = put_bytes(&to, "", 1);
    parts.first = put_text(&to, "main.first");
    parts.second = put_text(&to, "main.second");
    put_files(&to, &parts);
    put_lists(&to, &parts);
    to.at = (to.at + 7) & ~(size_t)7;
    size_t functions = to.at, base = layout == GOTABLE_1_2 ? 0 : functions;
    to.at += layout == GOTABLE_1_2 ? 0 : 48;
    size_t first = put_record(&to, &parts, false), second = put_record(&to, &parts, true);
    size_t end = to.at;
    to.at = layout == GOTABLE_1_2 ? header : functions;
    put_entry(&to, 0, first - base);
    put_entry(&to, MADE_SECOND, second - base);
    put_entry(&to, MADE_END, 0);
    if (layout == GOTABLE_1_2) {
        to.at -= 8;
        put(&to, parts.files, 4);
        return end;
    }
    to.at = header;
    put(&to, 2, 8); // files
    if (layout >= GOTABLE_1_18)
        put(&to, MADE_TEXT, 8);
    put(&to, parts.names, 8);
    put(&to, parts.units, 8);
    put(&to, parts.files, 8);
    put(&to, parts.values, 8);
    put(&to, functions, 8);
    return end;
}
