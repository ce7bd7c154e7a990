// SPDX-License-Identifier: MIT
#include "patch/functions/function_map.h"
#include "base/gc_hidden.h"
#include <string.h>

#define FUNCTION_MOST (UINT64_C(1) << 20)
#define LAYOUT_BYTES (FUNCTION_MOST / 8 + 8) // and a word that is read beyond
#define LOCK 0xf0

// By offset in the function: where instructions begin, where its own branches go, and where it may
// be left.
static unsigned char begins[LAYOUT_BYTES] GC_HIDDEN, reached[LAYOUT_BYTES] GC_HIDDEN;
static unsigned char ways_out[LAYOUT_BYTES] GC_HIDDEN;

static const struct patch_function *known; // which the map is of

static void set_bit(unsigned char *bits, size_t i)
{
    bits[i / 8] |= (unsigned char)(1u << i % 8);
}

static bool get_bit(const unsigned char *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static void mark_flow(struct patch_function *function, uintptr_t pc, const struct instruction *in)
{
    const bool direct = in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL;
    const uintptr_t target = decode_target(in, pc);
    const bool stays = direct && target >= function->start && target < function->end;
    if (stays)
        set_bit(reached, target - function->start);
    function->restarts |= in->flow == FLOW_JUMP && target == function->start;
    if (direct ? in->flow == FLOW_CALL || !stays
               : in->flow == FLOW_CALL_INDIRECT || in->flow == FLOW_JUMP_INDIRECT)
        set_bit(ways_out, pc - function->start);
}

// Instructions that lead to the next one, which most do; returns where they end.
static uintptr_t mark_plain(const struct patch_function *function, uintptr_t pc)
{
    while (function->end - pc > INSTRUCTION_MOST) {
        const unsigned length = decode_plain_length(code_at(pc));
        if (length == 0)
            break;
        set_bit(begins, pc - function->start);
        pc += length;
    }
    return pc;
}

static bool read_map(struct patch_function *function)
{
    const size_t bytes = function->end - function->start;
    if (bytes > FUNCTION_MOST)
        return false;
    memset(begins, 0, bytes / 8 + 1);
    memset(reached, 0, bytes / 8 + 1);
    memset(ways_out, 0, bytes / 8 + 1);
    struct instruction in;
    for (uintptr_t pc = function->start; pc < function->end; pc += in.length) {
        pc = mark_plain(function, pc);
        if (!decode(code_at(pc), function->end - pc, &in)) {
            functions_examine_no_more(function);
            return false;
        }
        set_bit(begins, pc - function->start);
        functions_examine_one(function, pc, &in);
        if (in.flow != FLOW_NEXT)
            mark_flow(function, pc, &in);
    }
    // Branches into the middle of what was taken for an instruction: it was none. But libc has
    // jumps over a lock prefix.
    for (size_t i = 0; i < bytes; i++)
        if (i % 8 == 0 && !(reached[i / 8] & ~begins[i / 8]))
            i += 7;
        else if (get_bit(reached, i) && !get_bit(begins, i) &&
                 (!get_bit(begins, i - 1) || *code_at(function->start + i - 1) != LOCK))
            return false;
    return true;
}

bool function_map_of(struct patch_function *function)
{
    if (function != known)
        known = read_map(function) ? function : NULL;
    return known != NULL;
}

void function_map_forget(void)
{
    known = NULL;
}

bool function_map_begins(const struct patch_function *function, uintptr_t pc)
{
    return get_bit(begins, pc - function->start);
}

bool function_map_is_reached(const struct patch_function *function, uintptr_t pc, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (get_bit(reached, pc - function->start + i))
            return true;
    return false;
}

uintptr_t function_map_way_out(const struct patch_function *function, uintptr_t pc)
{
    const size_t bytes = function->end - function->start;
    for (size_t at = pc - function->start; at < bytes;) {
        // The bits behind the function's are left from others.
        uint64_t word;
        memcpy(&word, ways_out + at / 64 * 8, sizeof word);
        word >>= at % 64;
        if (word) {
            at += (size_t)__builtin_ctzll(word);
            return at < bytes ? function->start + at : 0;
        }
        at = (at / 64 + 1) * 64;
    }
    return 0;
}

struct jump_trail function_map_trail_to(const struct patch_function *function, uintptr_t pc)
{
    struct jump_trail trail = {0};
    struct instruction in;
    uintptr_t from = pc;
    // One more than it holds: the extra one shows that the list is not complete.
    for (unsigned i = 0; i <= TRAIL && from > function->start; i++)
        do
            from--;
        while (!function_map_begins(function, from));
    for (; from < pc; from += in.length) {
        decode(code_at(from), function->end - from, &in);
        trail_add(&trail, &in);
    }
    return trail;
}
