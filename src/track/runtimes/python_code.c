// SPDX-License-Identifier: MIT
#include "track/runtimes/python_code.h"
#include "track/runtimes/runtime_memory.h"
#include "track/runtimes/runtime_names.h"

#define MOST_CHARACTERS 1024
#define MOST_TABLE (1u << 20) // bytes of a table of lines
#define OBJECT_TYPE 8
#define OBJECT_SIZE 16
#define TEXT_STATE 32
#define BYTES_CONTENT 32

static const struct python_code_layout *layout;
static struct python_types types;

void python_code_start(const struct python_code_layout *of, const struct python_types *known)
{
    layout = of;
    types = *known;
}

static bool is_readable(uintptr_t address, size_t bytes)
{
    return bytes <= MOST_TABLE && runtime_is_readable(address, bytes);
}

// An object of that type, with so many bytes.
static bool is_object(uintptr_t object, uintptr_t type, size_t bytes)
{
    return object % 8 == 0 && is_readable(object, bytes) &&
           *(const uintptr_t *)(object + OBJECT_TYPE) == type;
}

// A string, of characters of 1, 2 or 4 bytes.
struct text {
    const unsigned char *characters;
    size_t count;
    unsigned bytes;
};

static bool read_text(uintptr_t object, struct text *text)
{
    if (!is_object(object, types.text, layout->text))
        return false;
    const uint32_t state = *(const uint32_t *)(object + TEXT_STATE);
    const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    const size_t count = *(const size_t *)(object + OBJECT_SIZE);
    text->bytes = state >> 2 & 7;
    text->count = count < MOST_CHARACTERS ? count : MOST_CHARACTERS;
    text->characters = (const unsigned char *)object + (ascii ? layout->ascii : layout->text);
    return compact && (text->bytes == 1 || text->bytes == 2 || text->bytes == 4) &&
           is_readable((uintptr_t)text->characters, text->count * text->bytes);
}

static uint32_t character(const struct text *text, size_t index)
{
    const unsigned char *at = text->characters + index * text->bytes;
    uint32_t value = 0;
    for (unsigned i = text->bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

// In UTF-8. The number of bytes; NULL: only that.
static size_t put_character(uint32_t value, char *to)
{
    const unsigned more = (value >= 0x80) + (value >= 0x800) + (value >= 0x10000);
    static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
    for (unsigned i = 0; to && i <= more; i++) {
        const uint32_t bits = value >> 6 * (more - i);
        to[i] = (char)(i == 0 ? heads[more] | bits : 0x80 | (bits & 0x3f));
    }
    return more + 1;
}

static size_t put_text(const struct text *text, char *to)
{
    size_t bytes = 0;
    for (size_t i = 0; i < text->count; i++)
        bytes += put_character(character(text, i), to ? to + bytes : NULL);
    return bytes;
}

static uint64_t hash_text(uint64_t hash, const struct text *text)
{
    for (size_t i = 0; i < text->count; i++)
        hash = runtime_hash(hash, character(text, i));
    return runtime_hash(hash, text->count);
}

static uint64_t take_varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 32; shift += 6) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static int64_t take_signed(const unsigned char **at, const unsigned char *end)
{
    const uint64_t value = take_varint(at, end);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

// The forms of an entry, by what its first byte says.
enum { FORM_ONE_LINE = 10, FORM_NO_COLUMNS = 13, FORM_LONG = 14, FORM_NONE = 15 };

// How many lines an entry is further down.
static int64_t take_line(unsigned form, const unsigned char **at, const unsigned char *end)
{
    int64_t lines = 0;
    if (form < FORM_ONE_LINE)
        ++*at;
    else if (form < FORM_NO_COLUMNS) {
        lines = form - FORM_ONE_LINE;
        *at += 2;
    } else if (form != FORM_NONE)
        lines = take_signed(at, end);
    for (unsigned i = 0; form == FORM_LONG && i < 3; i++) // the end, and the columns
        take_varint(at, end);
    return lines;
}

uint32_t python_line(const unsigned char *table, const unsigned char *end, uint32_t first,
                     uint32_t unit)
{
    int64_t line = first;
    uint32_t begin = 0;
    while (table < end) {
        const unsigned char head = *table++;
        const unsigned form = head >> 3 & 15, units = (head & 7) + 1;
        line += take_line(form, &table, end);
        if (unit - begin < units)
            return form == FORM_NONE || line < 0 || line > INT32_MAX ? 0 : (uint32_t)line;
        begin += units;
    }
    return 0;
}

static uint32_t line_of(uintptr_t code, uintptr_t instruction)
{
    const uintptr_t table = *(const uintptr_t *)(code + layout->lines);
    const uint32_t first = *(const uint32_t *)(code + layout->first_line);
    if (!is_object(table, types.bytes, BYTES_CONTENT))
        return first;
    const size_t bytes = *(const size_t *)(table + OBJECT_SIZE);
    const uintptr_t begin = code + layout->instructions;
    // Before the first instruction: the function is about to begin.
    if (instruction < begin || !is_readable(table + BYTES_CONTENT, bytes))
        return first;
    const unsigned char *content = (const unsigned char *)table + BYTES_CONTENT;
    return python_line(content, content + bytes, first, (uint32_t)((instruction - begin) / 2));
}

// A place, and the names that are told of it.
struct told {
    const struct text *name, *file;
    place_t place, function;
    uint32_t line;
};

static void tell(const struct told *told)
{
    if (!runtime_names_lack(told->place))
        return;
    const size_t name_bytes = put_text(told->name, NULL), file_bytes = put_text(told->file, NULL);
    struct live_name *name = runtime_name_new(name_bytes, file_bytes);
    if (!name)
        return;
    name->place = told->place;
    name->function = told->function;
    name->line = told->line;
    put_text(told->name, name->text);
    put_text(told->file, name->text + name_bytes);
    runtime_name_push(name);
}

bool python_code_places(uintptr_t code, uintptr_t instruction, place_t *function, place_t *line)
{
    struct text name, file;
    if (!is_object(code, types.code, layout->instructions) ||
        !read_text(*(const uintptr_t *)(code + layout->name), &name) ||
        !read_text(*(const uintptr_t *)(code + layout->file), &file))
        return false;
    const uint32_t first = *(const uint32_t *)(code + layout->first_line);
    const uint32_t at = line_of(code, instruction);
    const uint64_t hash = runtime_hash(hash_text(hash_text(1, &file), &name), first);
    *function = runtime_place(MODULE_PYTHON, hash);
    *line = runtime_place(MODULE_PYTHON, runtime_hash(hash, at + UINT64_C(1)));
    tell(&(struct told){&name, &file, *function, *function, first});
    tell(&(struct told){&name, &file, *line, *function, at});
    return true;
}
