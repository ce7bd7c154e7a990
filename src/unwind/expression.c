// SPDX-License-Identifier: MIT
#include "unwind/expression.h"
#include "unwind/arch.h"
#include "unwind/stack.h"
#include "unwind/tables.h"

#define STACK 12
#define OPERATIONS_MOST 200 // expressions can branch backwards

struct evaluation {
    const struct expression *expression;
    struct unwind_cursor *cursor; // NULL: fold
    struct reader reader;
    const unsigned char *start;
    unsigned depth;
    struct term stack[STACK];
};

static bool push(struct evaluation *run, struct term term)
{
    if (run->depth == STACK)
        return false;
    run->stack[run->depth++] = term;
    return true;
}

static bool push_constant(struct evaluation *run, uint64_t value)
{
    return push(run, (struct term){.kind = TERM_CONSTANT, .outer = value});
}

static bool push_register(struct evaluation *run, uint64_t reg, int64_t offset)
{
    if (reg >= UNWIND_REGISTERS)
        return false;
    if (run->cursor) {
        if (!(run->cursor->known >> reg & 1))
            return false;
        return push_constant(run, run->cursor->registers[reg] + (uint64_t)offset);
    }
    if (reg == ARCH_RA)
        return run->expression->pc && push_constant(run, *run->expression->pc + (uint64_t)offset);
    return push(
        run, (struct term){.kind = TERM_REGISTER, .reg = (uint8_t)reg, .outer = (uint64_t)offset});
}

static bool load(struct evaluation *run, unsigned bytes)
{
    struct term *top = &run->stack[run->depth - 1];
    if (top->kind == TERM_REGISTER && bytes == 8) {
        int64_t offset = (int64_t)top->outer;
        if (offset != (int32_t)offset)
            return false;
        *top = (struct term){.kind = TERM_LOADED, .reg = top->reg, .inner = (int32_t)offset};
        return true;
    }
    if (top->kind != TERM_CONSTANT || !run->cursor || bytes == 0 || bytes > 8)
        return false;
    // A load of a few bytes may not be aligned as the loads of words are.
    uint64_t value = 0;
    uintptr_t aligned = top->outer & ~(uintptr_t)7, word;
    unsigned shift = (unsigned)(top->outer & 7);
    if (!stack_load(run->cursor, aligned, &word))
        return false;
    value = word >> (8 * shift);
    if (shift + bytes > 8) {
        if (!stack_load(run->cursor, aligned + 8, &word))
            return false;
        value |= word << (8 * (8 - shift));
    }
    if (bytes < 8)
        value &= (UINT64_C(1) << (8 * bytes)) - 1;
    top->outer = value;
    return true;
}

// Sums with a constant keep any shape; everything else wants constants.
static bool add(struct evaluation *run)
{
    struct term *left = &run->stack[run->depth - 2], *right = left + 1;
    if (left->kind != TERM_CONSTANT && right->kind != TERM_CONSTANT)
        return false;
    struct term sum = left->kind == TERM_CONSTANT ? *right : *left;
    sum.outer = left->outer + right->outer;
    *left = sum;
    run->depth--;
    return true;
}

static uint64_t shifted(uint64_t value, uint64_t count, bool left)
{
    if (count > 63)
        return 0;
    return left ? value << count : value >> count;
}

static bool divide(int64_t left, int64_t right, uint64_t *value)
{
    if (right == 0 || (left == INT64_MIN && right == -1))
        return false;
    *value = (uint64_t)(left / right);
    return true;
}

static bool binary(struct evaluation *run, uint8_t code)
{
    struct term *left = &run->stack[run->depth - 2], *right = left + 1;
    if (code == 0x1c && right->kind == TERM_CONSTANT) { // minus
        right->outer = 0 - right->outer;
        return add(run);
    }
    if (left->kind != TERM_CONSTANT || right->kind != TERM_CONSTANT)
        return false;
    uint64_t a = left->outer, b = right->outer, value = 0;
    int64_t signed_a = (int64_t)a, signed_b = (int64_t)b;
    switch (code) {
    case 0x1a:
        value = a & b;
        break;
    case 0x1b:
        if (!divide(signed_a, signed_b, &value))
            return false;
        break;
    case 0x1d:
        if (b == 0)
            return false;
        value = a % b;
        break;
    case 0x1e:
        value = a * b;
        break;
    case 0x21:
        value = a | b;
        break;
    case 0x24:
    case 0x25:
        value = shifted(a, b, code == 0x24);
        break;
    case 0x26: // arithmetic
        value = (uint64_t)(signed_a >> (b > 63 ? 63 : b));
        break;
    case 0x27:
        value = a ^ b;
        break;
    case 0x29:
        value = a == b;
        break;
    case 0x2a:
        value = signed_a >= signed_b;
        break;
    case 0x2b:
        value = signed_a > signed_b;
        break;
    case 0x2c:
        value = signed_a <= signed_b;
        break;
    case 0x2d:
        value = signed_a < signed_b;
        break;
    case 0x2e:
        value = a != b;
        break;
    default:
        return false;
    }
    left->outer = value;
    run->depth--;
    return true;
}

static bool unary(struct evaluation *run, uint8_t code)
{
    struct term *top = &run->stack[run->depth - 1];
    if (top->kind != TERM_CONSTANT)
        return false;
    if (code == 0x19)
        top->outer = (int64_t)top->outer < 0 ? 0 - top->outer : top->outer;
    else
        top->outer = code == 0x1f ? 0 - top->outer : ~top->outer;
    return true;
}

static bool jump(struct evaluation *run, int16_t distance)
{
    ptrdiff_t from = run->reader.at - run->start;
    ptrdiff_t size = run->reader.end - run->start;
    if (from + distance < 0 || from + distance > size)
        return false;
    run->reader.at = run->start + from + distance;
    return true;
}

static bool push_operand(struct evaluation *run, uint8_t code)
{
    struct reader *reader = &run->reader;
    switch (code) {
    case 0x03:
    case 0x0e:
    case 0x0f:
        return push_constant(run, reader_u64(reader));
    case 0x08:
        return push_constant(run, reader_u8(reader));
    case 0x09:
        return push_constant(run, (uint64_t)(int64_t)(int8_t)reader_u8(reader));
    case 0x0a:
        return push_constant(run, reader_u16(reader));
    case 0x0b:
        return push_constant(run, (uint64_t)(int64_t)(int16_t)reader_u16(reader));
    case 0x0c:
        return push_constant(run, reader_u32(reader));
    case 0x0d:
        return push_constant(run, (uint64_t)(int64_t)(int32_t)reader_u32(reader));
    case 0x10:
        return push_constant(run, reader_uleb(reader));
    case 0x11:
        return push_constant(run, (uint64_t)reader_sleb(reader));
    }
    return false;
}

// Stack manipulation; `needs` entries are there.
static bool shuffle(struct evaluation *run, uint8_t code)
{
    struct term *top = &run->stack[run->depth - 1], kept;
    uint8_t index;
    switch (code) {
    case 0x12: // dup
        return push(run, *top);
    case 0x13: // drop
        run->depth--;
        return true;
    case 0x14: // over
        return push(run, top[-1]);
    case 0x15: // pick
        index = reader_u8(&run->reader);
        return index < run->depth && push(run, *(top - index));
    case 0x16: // swap
        kept = top[0];
        top[0] = top[-1];
        top[-1] = kept;
        return true;
    case 0x17: // rot
        kept = top[0];
        top[0] = top[-1];
        top[-1] = top[-2];
        top[-2] = kept;
        return true;
    }
    return false;
}

static bool branch(struct evaluation *run, uint8_t code)
{
    int16_t distance = (int16_t)reader_u16(&run->reader);
    if (code == 0x2f)
        return jump(run, distance);
    struct term condition = run->stack[--run->depth];
    if (condition.kind != TERM_CONSTANT)
        return false;
    return condition.outer == 0 || jump(run, distance);
}

static unsigned operands(uint8_t code)
{
    if (code == 0x17)
        return 3;
    if (code == 0x14 || code == 0x16 || (code >= 0x1a && code <= 0x1e) || code == 0x21 ||
        code == 0x22 || (code >= 0x24 && code <= 0x27) || (code >= 0x29 && code <= 0x2e))
        return 2;
    if (code == 0x06 || code == 0x94 || (code >= 0x12 && code <= 0x15) || code == 0x19 ||
        code == 0x1f || code == 0x20 || code == 0x23 || code == 0x28)
        return 1;
    return 0;
}

static bool run_one(struct evaluation *run)
{
    struct reader *reader = &run->reader;
    uint8_t code = reader_u8(reader);
    uint64_t reg;
    if (run->depth < operands(code))
        return false;
    if (code >= 0x30 && code <= 0x4f) // lit
        return push_constant(run, code - 0x30u);
    if (code >= 0x70 && code <= 0x8f) // breg
        return push_register(run, code - 0x70u, reader_sleb(reader));
    if ((code >= 0x08 && code <= 0x11) || code == 0x03)
        return push_operand(run, code);
    if (code >= 0x12 && code <= 0x17)
        return shuffle(run, code);
    switch (code) {
    case 0x06: // deref
        return load(run, 8);
    case 0x94: // deref_size
        return load(run, reader_u8(reader));
    case 0x19:
    case 0x1f:
    case 0x20:
        return unary(run, code);
    case 0x22: // plus
        return add(run);
    case 0x23: // plus_uconst
        run->stack[run->depth - 1].outer += reader_uleb(reader);
        return true;
    case 0x28:
    case 0x2f:
        return branch(run, code);
    case 0x92: // bregx
        reg = reader_uleb(reader);
        return push_register(run, reg, reader_sleb(reader));
    case 0x96: // nop
        return true;
    }
    return operands(code) == 2 && binary(run, code);
}

static bool evaluate(const struct expression *expression, struct unwind_cursor *cursor,
                     struct term *result)
{
    const struct module_ref *module = expression->module;
    struct evaluation run;
    run.expression = expression;
    run.cursor = cursor;
    run.depth = 0;
    if (expression->block < module->tables_start || expression->block > module->tables_end)
        return false;
    run.reader = reader_make((const unsigned char *)expression->block,
                             (const unsigned char *)module->tables_end);
    uint64_t length = reader_uleb(&run.reader);
    if (length > reader_left(&run.reader))
        return false;
    run.start = run.reader.at;
    run.reader.end = run.start + length;
    if (expression->initial && !push_constant(&run, *expression->initial))
        return false;
    for (unsigned i = 0; reader_left(&run.reader); i++)
        if (i == OPERATIONS_MOST || !run_one(&run) || run.reader.failed)
            return false;
    if (run.depth == 0)
        return false;
    *result = run.stack[run.depth - 1];
    return true;
}

bool expression_fold(const struct expression *expression, struct term *result)
{
    return evaluate(expression, NULL, result);
}

bool expression_compute(const struct expression *expression, struct unwind_cursor *cursor,
                        uintptr_t *result)
{
    struct term term;
    if (!evaluate(expression, cursor, &term) || term.kind != TERM_CONSTANT)
        return false;
    *result = term.outer;
    return true;
}
