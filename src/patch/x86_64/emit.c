// SPDX-License-Identifier: MIT
#include "patch/x86_64/emit.h"
#include "patch/x86_64/relocate.h"
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
    if (out->slot && !relocate_distance(out->slot + out->at + 4, target, &distance))
        out->failed = true;
    emit_word(out, (uint32_t)distance);
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
    unsigned char moved[RELOCATED_MOST];
    // Where it will be does not matter for its size.
    const size_t size =
        relocate_make(moved, in, bytes, from, out->slot ? out->slot + out->at : from);
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
