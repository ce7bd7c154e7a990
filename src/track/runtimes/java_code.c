// SPDX-License-Identifier: MIT
#include "track/runtimes/java_code.h"
#include "track/runtimes/java_layout.h"
#include "track/runtimes/runtime_memory.h"
#include <stdatomic.h>
#include <string.h>

#define MOST_HEAPS 8
#define MOST_SEGMENTS 4096 // of a blob's way through the map
#define MOST_SCOPES 64
#define FREE_SEGMENT 0xff
#define STUB_NAMES 64
#define BLOCK_USED 8   // bytes before the flag in the header of a block
#define BLOB_LEAST 360 // bytes of a header, and what it describes

static uintptr_t word_of(uintptr_t object, enum java_field field)
{
    return *(const uintptr_t *)(object + java_layout[field]);
}

static int32_t number_of(uintptr_t object, enum java_field field)
{
    return *(const int32_t *)(object + java_layout[field]);
}

static uintptr_t static_word(enum java_field field)
{
    return __atomic_load_n((const uintptr_t *)java_layout[field], __ATOMIC_RELAXED);
}

bool java_code_holds(uintptr_t address)
{
    return address >= static_word(JAVA_CODE_LOW) && address < static_word(JAVA_CODE_HIGH);
}

// Whether an address is in the part of a space that is in use: it grows.
static bool space_holds(uintptr_t space, uintptr_t address)
{
    return address >= word_of(space, JAVA_SPACE_LOW) && address < word_of(space, JAVA_SPACE_HIGH);
}

// A header has the number of segments, and whether the block is used.
static uintptr_t used_block(uintptr_t memory, uintptr_t block, int32_t shift, uintptr_t *end)
{
    const uintptr_t bytes = *(const uintptr_t *)block << shift;
    *end = block + bytes;
    return *(const unsigned char *)(block + BLOCK_USED) && bytes > BLOB_LEAST && *end > block &&
                   space_holds(memory, *end - 1)
               ? block
               : 0;
}

// The used block that begins at or before an address, and where it ends; 0: there is none.
static uintptr_t block_at(uintptr_t heap, uintptr_t address, uintptr_t *end)
{
    const uintptr_t memory = heap + java_layout[JAVA_HEAP_MEMORY],
                    segments = heap + java_layout[JAVA_HEAP_SEGMENTS];
    const int32_t shift = number_of(heap, JAVA_HEAP_SEGMENT_SHIFT);
    const uintptr_t low = word_of(memory, JAVA_SPACE_LOW), map = word_of(segments, JAVA_SPACE_LOW);
    if (shift < 3 || shift > 20)
        return 0;
    uintptr_t segment = (address - low) >> shift;
    for (unsigned i = 0; i < MOST_SEGMENTS; i++) {
        const uintptr_t entry = map + segment;
        if (!space_holds(segments, entry))
            return 0;
        const unsigned char back = *(const unsigned char *)entry;
        if (back == FREE_SEGMENT || back > segment)
            return 0;
        if (back == 0)
            return used_block(memory, low + (segment << shift), shift, end);
        segment -= back;
    }
    return 0;
}

static uintptr_t heap_at(uintptr_t address)
{
    const uintptr_t heaps = static_word(JAVA_CODE_HEAPS);
    if (!heaps || !java_code_holds(address))
        return 0;
    const int32_t count = number_of(heaps, JAVA_ARRAY_LENGTH);
    const uintptr_t *list = (const uintptr_t *)word_of(heaps, JAVA_ARRAY_DATA);
    for (int32_t i = 0; i < count && i < MOST_HEAPS; i++)
        if (space_holds(list[i] + java_layout[JAVA_HEAP_MEMORY], address))
            return list[i];
    return 0;
}

// By its name, which is one text for all of a kind, in the machine's own memory.
static enum java_code_kind kind_of(uintptr_t name)
{
    static _Atomic uintptr_t compiled, native, stubs[STUB_NAMES]; // texts that were seen; relaxed
    _Atomic uintptr_t *stub = &stubs[(name >> 4 ^ name >> 10) % STUB_NAMES];
    uintptr_t page = 0, begin, more;
    if (name == atomic_load_explicit(&compiled, memory_order_relaxed))
        return JAVA_COMPILED;
    if (name == atomic_load_explicit(&native, memory_order_relaxed))
        return JAVA_NATIVE;
    if (name == atomic_load_explicit(stub, memory_order_relaxed))
        return JAVA_STUB;
    if (!runtime_load(&page, name & ~(uintptr_t)7, &begin) ||
        !runtime_load(&page, (name & ~(uintptr_t)7) + 8, &more))
        return JAVA_STUB;
    if (!strcmp((const char *)name, "nmethod")) {
        atomic_store_explicit(&compiled, name, memory_order_relaxed);
        return JAVA_COMPILED;
    }
    if (!strncmp((const char *)name, "native nmethod", 15)) {
        atomic_store_explicit(&native, name, memory_order_relaxed);
        return JAVA_NATIVE;
    }
    atomic_store_explicit(stub, name, memory_order_relaxed);
    return JAVA_STUB;
}

static bool interpreter_holds(uintptr_t pc)
{
    const uintptr_t queue = static_word(JAVA_INTERPRETER);
    return queue && pc - word_of(queue, JAVA_INTERPRETER_CODE) <
                        (uint32_t)number_of(queue, JAVA_INTERPRETER_BYTES);
}

bool java_code_at(uintptr_t pc, struct java_code *code)
{
    const uintptr_t heap = heap_at(pc), block = heap ? block_at(heap, pc, &code->limit) : 0;
    if (!block)
        return false;
    code->blob = block + java_layout[JAVA_BLOCK_BYTES];
    code->begin = word_of(code->blob, JAVA_BLOB_CODE);
    code->end = word_of(code->blob, JAVA_BLOB_CODE_END);
    if (pc < code->begin || pc >= code->end)
        return false;
    const int32_t words = number_of(code->blob, JAVA_BLOB_FRAME_WORDS);
    code->frame_words = words > 0 && words < 1 << 20 ? (uint32_t)words : 0;
    code->kind =
        interpreter_holds(pc) ? JAVA_INTERPRETED : kind_of(word_of(code->blob, JAVA_BLOB_NAME));
    return true;
}

uintptr_t java_code_name(const struct java_code *code)
{
    return word_of(code->blob, JAVA_BLOB_NAME);
}

uintptr_t java_code_method(const struct java_code *code)
{
    return word_of(code->blob, JAVA_COMPILED_METHOD);
}

uintptr_t java_code_entry(const struct java_code *code)
{
    return word_of(code->blob, JAVA_COMPILED_ENTRY);
}

bool java_code_is_abandoned(const struct java_code *code, uintptr_t pc, uintptr_t *offset)
{
    *offset = (uintptr_t)number_of(code->blob, JAVA_COMPILED_ORIGINAL_PC);
    return pc == word_of(code->blob, JAVA_COMPILED_DEOPT) ||
           pc == word_of(code->blob, JAVA_COMPILED_DEOPT_HANDLE);
}

// The listed position at or behind an offset from the first instruction; 0: there is none.
static uintptr_t position_at(const struct java_code *code, int32_t offset)
{
    const uintptr_t bytes = java_layout[JAVA_POSITION_BYTES];
    const uintptr_t first = code->blob + (uintptr_t)number_of(code->blob, JAVA_COMPILED_POSITIONS);
    const uintptr_t end =
        code->blob + (uintptr_t)number_of(code->blob, JAVA_COMPILED_POSITIONS_END);
    if (first < code->blob || end > code->limit || end < first || bytes < 8)
        return 0;
    size_t low = 0, high = (end - first) / bytes;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (number_of(first + middle * bytes, JAVA_POSITION_PC) < offset)
            low = middle + 1;
        else
            high = middle;
    }
    const uintptr_t found = first + low * bytes;
    return found + bytes <= end ? found : 0;
}

bool java_code_lists(const struct java_code *code, uintptr_t pc)
{
    const int32_t offset = (int32_t)(pc - code->begin);
    const uintptr_t position = code->kind == JAVA_COMPILED ? position_at(code, offset) : 0;
    return position && number_of(position, JAVA_POSITION_PC) == offset;
}

struct java_scopes java_scopes(const struct java_code *code, uintptr_t pc, bool interrupted)
{
    struct java_scopes scopes = {.blob = code->blob, .limit = code->limit, .left = MOST_SCOPES};
    // The scopes of an instruction are noted where it ends.
    const uintptr_t position = position_at(code, (int32_t)(pc - code->begin) + interrupted);
    const int32_t scope = position ? number_of(position, JAVA_POSITION_SCOPE) : 0;
    if (scope > 0)
        scopes.stream = word_of(code->blob, JAVA_COMPILED_SCOPES) + (uintptr_t)scope;
    return scopes;
}

// A number of one to five bytes: those from 192 on are followed by more, of 6 bits each.
static uint32_t take_number(uintptr_t *stream, const struct java_scopes *scopes)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 30; shift += 6) {
        if (*stream < scopes->blob || *stream >= scopes->limit)
            return 0;
        const unsigned char byte = *(const unsigned char *)(*stream)++;
        value += (uint32_t)byte << shift;
        if (byte < 192)
            break;
    }
    return value;
}

bool java_scopes_next(struct java_scopes *scopes, struct java_scope *scope)
{
    if (!scopes->stream || !scopes->left)
        return false;
    uintptr_t at = scopes->stream;
    const uint32_t sender = take_number(&at, scopes), method = take_number(&at, scopes);
    scope->position = (int32_t)take_number(&at, scopes) - 1;
    scopes->left--;
    scopes->stream = sender ? word_of(scopes->blob, JAVA_COMPILED_SCOPES) + sender : 0;
    const uintptr_t list =
        scopes->blob + (uintptr_t)number_of(scopes->blob, JAVA_COMPILED_METADATA);
    const uintptr_t entry = list + (method - UINT64_C(1)) * 8;
    const bool known = method && list > scopes->blob && entry + 8 <= scopes->limit;
    scope->method = known ? *(const uintptr_t *)entry : 0;
    return known;
}
