// SPDX-License-Identifier: MIT
#include "track/runtimes/java_method.h"
#include "track/runtimes/java_layout.h"
#include "track/runtimes/runtime_memory.h"
#include "track/runtimes/runtime_spots.h"
#include <string.h>

#define MOST_CHARACTERS 512
#define MOST_TABLE 65536 // bytes of a table of lines
#define HAS_LINES 1      // a flag
#define POSITION_BITS 17

// Names of the machine's: at most so many bytes are shown.
struct symbol_text {
    const char *bytes;
    size_t count;
};

// All that is read of a method.
struct method_facts {
    uintptr_t constant, pool, holder, flags, code_bytes;
    struct symbol_text class, name, signature, file;
};

static bool read_symbol(uintptr_t symbol, struct symbol_text *text)
{
    uintptr_t page = 0, count;
    if (!runtime_load_part(&page, symbol + java_layout[JAVA_SYMBOL_LENGTH], 2, &count) || !count)
        return false;
    text->bytes = (const char *)symbol + java_layout[JAVA_SYMBOL_BODY];
    text->count = count < MOST_CHARACTERS ? count : MOST_CHARACTERS;
    return runtime_is_readable((uintptr_t)text->bytes, text->count);
}

// An entry of a pool of constants that is a symbol.
static bool read_entry(uintptr_t pool, uintptr_t index, struct symbol_text *text)
{
    uintptr_t page = 0, symbol;
    return index && runtime_load(&page, pool + java_layout[JAVA_POOL_BYTES] + index * 8, &symbol) &&
           read_symbol(symbol, text);
}

// That its class leads back to the pool tells a method from other memory.
static bool read_class(struct method_facts *facts)
{
    uintptr_t page = 0, name, pool;
    return runtime_load(&page, facts->pool + java_layout[JAVA_POOL_HOLDER], &facts->holder) &&
           runtime_load(&page, facts->holder + java_layout[JAVA_CLASS_POOL], &pool) &&
           pool == facts->pool &&
           runtime_load(&page, facts->holder + java_layout[JAVA_CLASS_NAME], &name) &&
           read_symbol(name, &facts->class);
}

static bool read_method(uintptr_t method, struct method_facts *facts)
{
    uintptr_t page = 0, name, signature, file;
    if (!runtime_load(&page, method + java_layout[JAVA_METHOD_CONSTANT], &facts->constant))
        return false;
    const uintptr_t constant = facts->constant;
    if (!runtime_load(&page, constant + java_layout[JAVA_CONSTANT_POOL], &facts->pool) ||
        !runtime_load_part(&page, constant + java_layout[JAVA_CONSTANT_FLAGS], 2, &facts->flags) ||
        !runtime_load_part(&page, constant + java_layout[JAVA_CONSTANT_CODE_BYTES], 2,
                           &facts->code_bytes) ||
        !runtime_load_part(&page, constant + java_layout[JAVA_CONSTANT_NAME], 2, &name) ||
        !runtime_load_part(&page, constant + java_layout[JAVA_CONSTANT_SIGNATURE], 2, &signature) ||
        !read_class(facts) || !read_entry(facts->pool, name, &facts->name) ||
        !read_entry(facts->pool, signature, &facts->signature))
        return false;
    page = 0;
    facts->file.count = 0;
    if (runtime_load_part(&page, facts->pool + java_layout[JAVA_POOL_FILE], 2, &file) &&
        !read_entry(facts->pool, file, &facts->file))
        facts->file.count = 0;
    return true;
}

// A table that is read byte by byte: 0 where it ends.
struct line_table {
    const unsigned char *at, *end;
};

static unsigned char take_byte(struct line_table *table)
{
    return table->at < table->end ? *table->at++ : 0;
}

static int32_t take_signed(struct line_table *table)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 30; shift += 6) {
        const unsigned char byte = take_byte(table);
        value += (uint32_t)byte << shift;
        if (byte < 192)
            break;
    }
    return (int32_t)(value >> 1) ^ -(int32_t)(value & 1);
}

uint32_t java_line(const unsigned char *bytes, size_t readable, uint32_t position)
{
    struct line_table table = {bytes, bytes + readable};
    int32_t at = 0, line = 0, found = 0, begin = -1;
    for (unsigned char head; (head = take_byte(&table)) != 0;) {
        if (head == 0xff) {
            at += take_signed(&table);
            line += take_signed(&table);
        } else {
            at += head >> 3;
            line += head & 7;
        }
        // Of the positions up to the wanted one, the last; they need not be in order.
        if (at >= 0 && (uint32_t)at <= position && at >= begin) {
            begin = at;
            found = line;
        }
    }
    return found > 0 ? (uint32_t)found : 0;
}

static uint32_t line_of(const struct method_facts *facts, uint32_t position)
{
    const uintptr_t table = facts->constant + java_layout[JAVA_CONSTANT_BYTES] + facts->code_bytes;
    if (!(facts->flags & HAS_LINES))
        return 0;
    size_t readable = RUNTIME_PAGE - table % RUNTIME_PAGE;
    if (!runtime_is_readable(table, readable))
        return 0;
    while (readable < MOST_TABLE && loadmap_readable(table + readable))
        readable += RUNTIME_PAGE;
    return java_line((const unsigned char *)table, readable, position);
}

// Hidden classes have the address of something in their names, another one in each run.
static size_t class_bytes(const struct symbol_text *class)
{
    const char *plus = memchr(class->bytes, '+', class->count);
    return plus ? (size_t)(plus - class->bytes) : class->count;
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = runtime_hash(hash, (unsigned char)bytes[i]);
    return runtime_hash(hash, count);
}

// Where the folder of its source ends: that of its package.
static size_t package_bytes(const struct symbol_text *class)
{
    size_t bytes = class_bytes(class);
    while (bytes && class->bytes[bytes - 1] != '/')
        bytes--;
    return bytes;
}

static char *put_class(char *to, const struct symbol_text *class)
{
    const size_t count = class_bytes(class);
    for (size_t i = 0; i < count; i++)
        *to++ = class->bytes[i] == '/' ? '.' : class->bytes[i];
    return to;
}

static void tell_method(const struct method_facts *facts, place_t place, place_t function,
                        uint32_t line)
{
    if (!runtime_names_lack(place))
        return;
    const size_t class = class_bytes(&facts->class),
                 folder = facts->file.count ? package_bytes(&facts->class) : 0;
    struct live_name *name =
        runtime_name_new(class + 1 + facts->name.count, folder + facts->file.count);
    if (!name)
        return;
    name->place = place;
    name->function = function;
    name->line = line;
    char *to = put_class(name->text, &facts->class);
    *to++ = '.';
    to = mempcpy(to, facts->name.bytes, facts->name.count);
    to = mempcpy(to, facts->class.bytes, folder);
    memcpy(to, facts->file.bytes, facts->file.count);
    runtime_name_push(name);
}

static void find_places(const struct method_facts *facts, uint32_t position,
                        struct runtime_frame *frame)
{
    uint64_t hash = hash_bytes(2, facts->class.bytes, class_bytes(&facts->class));
    hash = hash_bytes(hash, facts->name.bytes, facts->name.count);
    hash = hash_bytes(hash, facts->signature.bytes, facts->signature.count);
    const uint32_t line = line_of(facts, position);
    frame->proof = facts->constant;
    frame->function = runtime_place(MODULE_JAVA, hash);
    frame->line = runtime_place(MODULE_JAVA, runtime_hash(hash, line + UINT64_C(1)));
    tell_method(facts, frame->function, frame->function, line_of(facts, 0));
    tell_method(facts, frame->line, frame->function, line);
}

// Memory of a class that was unloaded has other words in its methods when it is used again.
static bool is_known(uintptr_t spot, uintptr_t method, struct runtime_frame *frame)
{
    uintptr_t page = 0, constant;
    const enum runtime_spot_age age = runtime_spot_recall(spot, method, frame);
    if (age != SPOT_OLD)
        return age == SPOT_FRESH;
    if (!runtime_load(&page, method + java_layout[JAVA_METHOD_CONSTANT], &constant) ||
        constant != frame->proof)
        return false;
    runtime_spot_remember(spot, method, frame);
    return true;
}

bool java_method_frame(uintptr_t method, int32_t position, struct runtime_frame *frame)
{
    struct method_facts facts;
    const uint32_t at = position > 0 ? (uint32_t)position : 0;
    const uintptr_t spot = method ^ (uintptr_t)(at + 1) << (64 - POSITION_BITS);
    if (is_known(spot, method, frame))
        return true;
    if (!read_method(method, &facts))
        return false;
    find_places(&facts, at, frame);
    runtime_spot_remember(spot, method, frame);
    return true;
}

bool java_method_frame_at(uintptr_t method, uintptr_t bytecode, struct runtime_frame *frame)
{
    struct method_facts facts;
    const uintptr_t spot = bytecode ? bytecode : method;
    if (spot <= RUNTIME_PAGE)
        return false;
    if (is_known(spot, method, frame))
        return true;
    if (!read_method(method, &facts))
        return false;
    const uintptr_t position = bytecode - facts.constant - java_layout[JAVA_CONSTANT_BYTES];
    if (bytecode && position >= facts.code_bytes)
        return false;
    find_places(&facts, bytecode ? (uint32_t)position : 0, frame);
    runtime_spot_remember(spot, method, frame);
    return true;
}

bool java_stub_frame(uintptr_t name, struct runtime_frame *frame)
{
    if (name <= RUNTIME_PAGE)
        return false;
    if (runtime_spot_recall(name, name, frame) != SPOT_UNKNOWN)
        return true;
    size_t count = 0;
    uintptr_t page = 0, character;
    while (count < MOST_CHARACTERS && runtime_load_part(&page, name + count, 1, &character) &&
           character)
        count++;
    if (!count)
        return false;
    frame->proof = 0;
    frame->function = frame->line =
        runtime_place(MODULE_JAVA, hash_bytes(3, (const char *)name, count));
    if (runtime_names_lack(frame->function)) {
        struct live_name *told = runtime_name_new(count, 0);
        if (told) {
            told->place = told->function = frame->function;
            told->line = 0;
            memcpy(told->text, (const char *)name, count);
            runtime_name_push(told);
        }
    }
    runtime_spot_remember(name, name, frame);
    return true;
}
