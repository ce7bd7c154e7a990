// SPDX-License-Identifier: MIT
#include "patch/assemble.h"
#include "patch/moved.h"
#include <string.h>

#define ORIGINAL_MOST (JUMP_BYTES + 2 * INSTRUCTION_MOST)

struct assembler {
    unsigned char *code;
    size_t at;
    uintptr_t slot; // where it will be; 0: only its size is wanted
    bool failed;
};

static void emit(struct assembler *out, const void *bytes, size_t count)
{
    if (out->at + count > STUB_MOST) {
        out->failed = true;
        return;
    }
    memcpy(out->code + out->at, bytes, count);
    out->at += count;
}

static void emit_word(struct assembler *out, uint32_t word)
{
    emit(out, &word, sizeof word);
}

// The distance to an address, as the last four bytes of an instruction.
static void emit_distance(struct assembler *out, uintptr_t target)
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

// No register is used, so none has to be saved; the flags are dead around a call.
static void emit_add(struct assembler *out, struct stub *stub, const struct stub_plan *plan)
{
    stub->add = (uint8_t)out->at;
    if (!stub->wide) {
        emit_quad(out, ADD, plan->tls_number, (int32_t)plan->delta);
        return;
    }
    emit_half(out, ADD, plan->tls_number, (uint32_t)plan->delta);
    stub->half_add = (uint8_t)out->at;
    emit_half(out, ADC, plan->tls_number + 4, (uint32_t)((uint64_t)plan->delta >> 32));
}

static void emit_sub(struct assembler *out, struct stub *stub, const struct stub_plan *plan)
{
    if (!stub->wide) {
        emit_quad(out, SUB, plan->tls_number, (int32_t)plan->delta);
        return;
    }
    emit_half(out, SUB, plan->tls_number, (uint32_t)plan->delta);
    stub->half_sub = (uint8_t)out->at;
    emit_half(out, SBB, plan->tls_number + 4, (uint32_t)((uint64_t)plan->delta >> 32));
}

// call *literal(%rip); the literal comes at the end. Returns where its distance is.
static size_t emit_hook(struct assembler *out)
{
    emit(out, "\xff\x15", 2);
    emit_word(out, 0);
    return out->at;
}

static void emit_literal(struct assembler *out, size_t hook, void (*target)(void))
{
    const uint32_t distance = (uint32_t)(out->at - hook);
    if (!out->failed)
        memcpy(out->code + hook - 4, &distance, sizeof distance);
    emit(out, &target, sizeof target);
}

// The bytes that the stub stands for, as they are in the program.
static void read_original(const struct site *site, unsigned char bytes[ORIGINAL_MOST])
{
    const size_t whole = site->span < JUMP_BYTES ? site->span : JUMP_BYTES;
    memset(bytes, 0xcc, ORIGINAL_MOST);
    memcpy(bytes, site->original, whole);
    if (site->span > JUMP_BYTES)
        memcpy(bytes + JUMP_BYTES, (const void *)(site_start(site) + JUMP_BYTES),
               site->span - JUMP_BYTES);
}

static void emit_moved(struct assembler *out, const struct instruction *in,
                       const unsigned char *bytes, uintptr_t from)
{
    unsigned char moved[MOVED_MOST];
    // Where it will be does not matter for its size.
    const size_t size = moved_make(moved, in, bytes, from, out->slot ? out->slot + out->at : from);
    out->failed |= size == 0;
    emit(out, moved, size);
}

// The operand of an indirect call or jump, pushed: the same with another number in its ModRM byte.
// The stack pointer that it may name is that from before the push, as it is in a call.
static void emit_push_operand(struct assembler *out, const struct instruction *in,
                              const unsigned char *bytes, uintptr_t from)
{
    unsigned char push[INSTRUCTION_MOST];
    struct instruction as_push = *in;
    memcpy(push, bytes, in->length);
    push[in->opcode_at + 1] = (unsigned char)((push[in->opcode_at + 1] & 0xc7) | 0x30);
    as_push.flow = FLOW_NEXT;
    emit_moved(out, &as_push, push, from);
}

// push operand; pop %fs:offset
static void emit_tell_target(struct assembler *out, struct stub *stub, const struct instruction *in,
                             const unsigned char *bytes, int32_t offset)
{
    emit_push_operand(out, in, bytes, stub->site->address);
    stub->popped = (uint8_t)out->at;
    emit(out, "\x64\x8f\x04\x25", 4);
    emit_word(out, (uint32_t)offset);
}

static void emit_site(struct assembler *out, const struct site *site, const struct instruction *in,
                      const unsigned char *bytes)
{
    if (in->flow == FLOW_CALL) {
        emit(out, "\xe8", 1);
        emit_distance(out, decode_target(in, site->address));
    } else {
        emit_moved(out, in, bytes, site->address);
    }
}

// Neighbours, from one offset in the span to another.
static void emit_neighbours(struct assembler *out, struct stub *stub, const unsigned char *bytes,
                            unsigned from, unsigned to)
{
    const struct site *site = stub->site;
    struct instruction in;
    for (unsigned at = from; at < to; at += in.length) {
        if (!decode(bytes + at, site->span - at, &in)) {
            out->failed = true;
            return;
        }
        if (at > site->lead && !(site->starts >> at & 1))
            return; // padding behind a jump
        if (at < JUMP_BYTES)
            stub->moved[at] = (uint8_t)out->at;
        emit_moved(out, &in, bytes + at, site_start(site) + at);
    }
}

static bool is_tail(const struct site *site)
{
    return site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
}

static void emit_before(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                        const struct instruction *in, const unsigned char *bytes, size_t *hook)
{
    if (plan->kind == STUB_DELTA)
        emit_add(out, stub, plan);
    if (plan->kind != STUB_HOOK)
        return;
    if (plan->tls_target && (in->flow == FLOW_CALL_INDIRECT || in->flow == FLOW_JUMP_INDIRECT))
        emit_tell_target(out, stub, in, bytes, plan->tls_target);
    if (plan->before)
        *hook = emit_hook(out);
}

static void emit_head(struct assembler *out, const struct site *site)
{
    const uintptr_t truth = is_tail(site) ? site->address + 1 : site->address + site->length;
    emit_word(out, (uint32_t)(truth - out->slot + DISTANCE_BIAS));
}

static void emit_all(struct assembler *out, struct stub *stub, const struct stub_plan *plan)
{
    const struct site *site = stub->site;
    unsigned char bytes[ORIGINAL_MOST];
    struct instruction in;
    size_t before = 0, after = 0;
    read_original(site, bytes);
    const unsigned char *call = bytes + site->lead;
    if (!decode(call, (size_t)(site->span - site->lead), &in)) {
        out->failed = true;
        return;
    }
    stub->wide = plan->kind == STUB_DELTA && (plan->wide || plan->delta != (int32_t)plan->delta);
    emit_head(out, site);
    emit_neighbours(out, stub, bytes, 0, site->lead);
    stub->begin = (uint8_t)out->at;
    if (site->lead < JUMP_BYTES)
        stub->moved[site->lead] = stub->begin;
    emit_before(out, stub, plan, &in, call, &before);
    stub->call = stub->added = (uint8_t)out->at;
    emit_site(out, site, &in, call);
    stub->back = (uint8_t)out->at;
    if (!is_tail(site)) {
        if (plan->kind == STUB_DELTA)
            emit_sub(out, stub, plan);
        if (plan->kind == STUB_HOOK && plan->after)
            after = emit_hook(out);
        stub->behind = (uint8_t)out->at;
        emit_neighbours(out, stub, bytes, (unsigned)(site->lead + site->length), site->span);
        stub->end = (uint8_t)out->at;
        emit(out, "\xe9", 1);
        emit_distance(out, site_start(site) + site->span);
    }
    if (before)
        emit_literal(out, before, plan->before);
    if (after)
        emit_literal(out, after, plan->after);
}

size_t assemble(struct stub *stub, const struct stub_plan *plan, unsigned char code[STUB_MOST])
{
    struct assembler out = {code, 0, stub->code, false};
    stub->kind = (uint8_t)plan->kind;
    stub->delta = plan->delta;
    emit_all(&out, stub, plan);
    return out.failed ? 0 : out.at;
}

size_t assemble_size(struct site *site, const struct stub_plan *plan)
{
    unsigned char code[STUB_MOST];
    struct stub stub = {.site = site};
    return assemble(&stub, plan, code);
}
