// SPDX-License-Identifier: MIT
#include "patch/x86_64/return_load.h"
#include "unwind/cfi.h"

enum {
    DEPTH_UNKNOWN = -1,
    DEPTH_BY_FRAME =
        -2, // the CFA is relative to the frame pointer: the stack pointer loads nothing
};

// How far the stack pointer is below the CFA, followed through straight code.
static int64_t depth_after(const struct instruction *in, int64_t depth)
{
    const bool one = in->map == MAP_ONE && !in->vector;
    if (depth == DEPTH_UNKNOWN || (in->flow != FLOW_NEXT && in->flow != FLOW_BRANCH &&
                                   in->flow != FLOW_CALL && in->flow != FLOW_CALL_INDIRECT))
        return DEPTH_UNKNOWN;
    if (!one)
        return depth;
    if (depth == DEPTH_BY_FRAME) // until it is taken down
        return in->opcode == 0xc9 || (in->opcode & 0xf8) == 0x58 ? DEPTH_UNKNOWN : depth;
    if ((in->opcode & 0xf8) == 0x50 || in->opcode == 0x68 || in->opcode == 0x6a ||
        (in->opcode == 0xff && (in->reg & 7) == 6))
        return depth + 8;
    if ((in->opcode & 0xf8) == 0x58)
        return depth - 8;
    if ((in->opcode == 0x81 || in->opcode == 0x83) && in->mod == 3 && in->rm == REGISTER_STACK)
        switch (in->reg & 7) {
        case 0:
            return depth - in->immediate;
        case 5:
            return depth + in->immediate;
        case 7:
            return depth;
        default:
            return DEPTH_UNKNOWN;
        }
    const bool writes_stack_pointer =
        in->opcode == 0xc9 ||
        (in->has_modrm &&
         ((in->reg == REGISTER_STACK && in->opcode != 0x89 && in->opcode != 0xff) ||
          (in->mod == 3 && in->rm == REGISTER_STACK && in->opcode == 0x89)));
    return writes_stack_pointer ? DEPTH_UNKNOWN : depth;
}

// Loads a word, or pops it: the kinds of instruction that fetch a return address.
static bool loads_word(const struct instruction *in)
{
    if (in->vector || in->map != MAP_ONE)
        return false;
    if (in->opcode == 0x8b)
        return in->rex & 8 && in->mod != 3;
    return in->opcode == 0xff && (in->reg & 7) == 6 && in->mod != 3;
}

// The stack pointer is at the return address.
static bool is_empty(const struct cfi_row *row)
{
    return row->cfa_register == ARCH_SP && row->cfa_offset == 8;
}

static bool loads_return(struct return_search *search, uintptr_t pc, const struct instruction *in)
{
    const int64_t depth = search->depth;
    const bool pops = in->map == MAP_ONE && !in->vector && (in->opcode & 0xf8) == 0x58;
    const bool from_stack =
        loads_word(in) && in->index == NO_REGISTER && !in->rip_relative &&
        (in->base == REGISTER_STACK || (in->base == REGISTER_FRAME && in->disp == 8));
    if (pops ? depth != DEPTH_UNKNOWN && depth != 8 : !from_stack)
        return false;
    if (from_stack && in->base == REGISTER_STACK && depth != DEPTH_UNKNOWN && in->disp != depth - 8)
        return false;
    // The table has the last word.
    struct cfi_function bounds;
    struct cfi_row row;
    if (cfi_find_caller(search->module, pc, &bounds, &row) != CFI_OK || row.cfa_is_expression)
        return false;
    search->depth = row.cfa_register == ARCH_SP ? row.cfa_offset : DEPTH_BY_FRAME;
    if (pops)
        return is_empty(&row);
    const unsigned reg = in->base == REGISTER_STACK ? ARCH_SP : ARCH_FP;
    return row.cfa_register == reg && row.cfa_offset - 8 == in->disp;
}

struct return_search return_search_begin(const struct module_ref *module, bool whole)
{
    return (struct return_search){module, whole ? 8 : DEPTH_UNKNOWN};
}

bool return_search_step(struct return_search *search, uintptr_t pc, const struct instruction *in)
{
    const bool loads = loads_return(search, pc, in);
    search->depth = depth_after(in, search->depth);
    return loads;
}

struct code_range {
    const struct module_ref *module;
    size_t left; // bytes that may be looked at
};

// Where the stack pointer is at the return address, a pop loads it as well. Bytes that look like
// one are in all code: so these few are decoded.
static bool decoded_loads(const struct module_ref *module, uintptr_t pc, uintptr_t end)
{
    struct return_search search = return_search_begin(module, true);
    struct instruction in;
    for (; pc < end; pc += in.length)
        if (!decode((const unsigned char *)pc, end - pc, &in) ||
            return_search_step(&search, pc, &in))
            return true;
    return false;
}

// The next such byte, or the end. Eight at a time, as there may be a hundred kilobytes of code.
static const unsigned char *next_byte(const unsigned char *at, const unsigned char *end,
                                      unsigned char byte)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        __builtin_memcpy(&word, at, sizeof word);
        word ^= ones * byte;
        const uint64_t zeroes = (word - ones) & ~word & ones << 7; // the lowest is right
        if (zeroes)
            return at + (__builtin_ctzll(zeroes) >> 3);
    }
    while (at < end && *at != byte)
        at++;
    return at;
}

// An operand at rsp + offset, or at rbp + 8, by its bytes.
static bool has_operand(const unsigned char *code, const unsigned char *end, bool by_frame,
                        int64_t offset)
{
    const unsigned char last = by_frame ? 8 : 0x24;
    for (const unsigned char *at = code; (at = next_byte(at + 1, end, last)) < end;) {
        const unsigned mode = at[-1] & 0xc7u;
        int32_t wide;
        if (by_frame ? mode == 0x45 : mode == 0x44 && end - at > 1 && (signed char)at[1] == offset)
            return true;
        if (by_frame || mode != 0x84 || end - at <= 4)
            continue;
        __builtin_memcpy(&wide, at + 1, sizeof wide);
        if (wide == offset)
            return true;
    }
    return false;
}

static bool loads_nothing(void *context, uintptr_t start, uintptr_t end, const struct cfi_row *row)
{
    struct code_range *range = context;
    if (row->cfa_is_expression || start < range->module->code_start ||
        end > range->module->code_end || end - start > range->left)
        return false;
    range->left -= end - start;
    const unsigned char *code = (const unsigned char *)start;
    if (is_empty(row))
        return !decoded_loads(range->module, start, end);
    if (row->cfa_register == ARCH_FP)
        return row->cfa_offset == 16 && !has_operand(code, (const unsigned char *)end, true, 8);
    return row->cfa_register == ARCH_SP &&
           !has_operand(code, (const unsigned char *)end, false, row->cfa_offset - 8);
}

bool return_may_be_loaded(const struct module_ref *module, uintptr_t pc, size_t most)
{
    struct code_range range = {module, most};
    struct cfi_function function;
    return cfi_visit_rows(module, pc, &function, loads_nothing, &range) != CFI_OK;
}
