// SPDX-License-Identifier: MIT
#include "patch/emit.h"
#include <string.h>

void emit(struct assembler *out, const void *bytes, size_t count)
{
    if (out->at + count > STUB_MOST) {
        out->failed = true;
        return;
    }
    memcpy(out->code + out->at, bytes, count);
    out->at += count;
}

void emit_word(struct assembler *out, uint32_t word)
{
    emit(out, &word, sizeof word);
}

void emit_distance(struct assembler *out, uintptr_t target)
{
    int32_t distance = 0;
    if (out->slot && !moved_distance(out->slot + out->at + 4, target, &distance))
        out->failed = true;
    emit_word(out, (uint32_t)distance);
}

// add, adc, sub or sbb of a doubleword at %fs:offset; the second byte of ModRM says which.
static void emit_half(struct assembler *out, uint8_t operation, int32_t offset, uint32_t amount)
{
    const unsigned char code[] = {0x64, 0x81, operation, 0x25};
    emit(out, code, sizeof code);
    emit_word(out, (uint32_t)offset);
    emit_word(out, amount);
}

static void emit_quad(struct assembler *out, uint8_t operation, int32_t offset, int32_t amount)
{
    const unsigned char code[] = {0x64, 0x48, 0x81, operation, 0x25};
    emit(out, code, sizeof code);
    emit_word(out, (uint32_t)offset);
    emit_word(out, (uint32_t)amount);
}

enum { ADD = 0x04, ADC = 0x14, SBB = 0x1c, SUB = 0x2c };

// What is to be nothing, and can become an addition when the stub is renewed.
static void emit_nothing(struct assembler *out)
{
    emit(out, "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00", 9);
    emit(out, "\x0f\x1f\x40\x00", 4);
}

bool is_wide(const struct stub_plan *plan, int64_t delta)
{
    return plan->wide || delta != (int32_t)delta;
}

// Changes the thread's number; `carry` is what the upper half takes. Returns where that begins, or
// 0.
static size_t emit_change(struct assembler *out, const struct stub_plan *plan, int64_t delta,
                          uint8_t operation, uint8_t carry)
{
    if (delta == 0 && !plan->wide) {
        emit_nothing(out);
        return 0;
    }
    if (!is_wide(plan, delta)) {
        emit_quad(out, operation, plan->tls_number, (int32_t)delta);
        return 0;
    }
    emit_half(out, operation, plan->tls_number, (uint32_t)delta);
    const size_t half = out->at;
    emit_half(out, carry, plan->tls_number + 4, (uint32_t)((uint64_t)delta >> 32));
    return half;
}

void emit_add(struct assembler *out, struct stub_call *call, const struct stub_plan *plan)
{
    call->add = (uint16_t)out->at;
    call->half_add = (uint16_t)emit_change(out, plan, call->delta, ADD, ADC);
}

void emit_sub(struct assembler *out, struct stub_call *call, const struct stub_plan *plan)
{
    call->half_sub = (uint16_t)emit_change(out, plan, call->delta, SUB, SBB);
}

size_t emit_hook(struct assembler *out)
{
    emit(out, "\xff\x15", 2);
    emit_word(out, 0);
    return out->at;
}

void emit_literal(struct assembler *out, size_t behind, uintptr_t literal)
{
    end_far(out, behind);
    emit(out, &literal, sizeof literal);
}

void emit_moved(struct assembler *out, const struct instruction *in, const unsigned char *bytes,
                uintptr_t from)
{
    unsigned char moved[MOVED_MOST];
    // Where it will be does not matter for its size.
    const size_t size = moved_make(moved, in, bytes, from, out->slot ? out->slot + out->at : from);
    out->failed |= size == 0;
    emit(out, moved, size);
}

void emit_drop(struct assembler *out, struct stub_call *call)
{
    call->popped = (uint16_t)out->at;
    emit(out, "\x48\x8d\x64\x24\x08", 5);
}

size_t emit_skip(struct assembler *out)
{
    emit(out, "\x75\x00", 2);
    return out->at;
}

size_t emit_far(struct assembler *out, const char *jump, size_t bytes)
{
    emit(out, jump, bytes);
    emit_word(out, 0);
    return out->at;
}

void end_far(struct assembler *out, size_t jump)
{
    const uint32_t distance = (uint32_t)(out->at - jump);
    if (!out->failed)
        memcpy(out->code + jump - sizeof distance, &distance, sizeof distance);
}

void end_skip(struct assembler *out, size_t skip)
{
    if (out->at - skip > INT8_MAX)
        out->failed = true;
    else if (!out->failed)
        out->code[skip - 1] = (unsigned char)(out->at - skip);
}
