// SPDX-License-Identifier: MIT
#include "patch/assemble.h"
#include "patch/moved.h"
#include <string.h>

#define ORIGINAL_MOST (JUMP_BYTES + 2 * INSTRUCTION_MOST)
#define ARMS_MOST 8

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

static bool is_wide(const struct stub_plan *plan, int64_t delta)
{
    return plan->wide || delta != (int32_t)delta;
}

// No register is used, so none has to be saved; the flags are dead around a call.
static void emit_add(struct assembler *out, struct stub_call *call, const struct stub_plan *plan)
{
    call->add = (uint16_t)out->at;
    if (!is_wide(plan, call->delta)) {
        emit_quad(out, ADD, plan->tls_number, (int32_t)call->delta);
        return;
    }
    emit_half(out, ADD, plan->tls_number, (uint32_t)call->delta);
    call->half_add = (uint16_t)out->at;
    emit_half(out, ADC, plan->tls_number + 4, (uint32_t)((uint64_t)call->delta >> 32));
}

static void emit_sub(struct assembler *out, struct stub_call *call, const struct stub_plan *plan)
{
    if (!is_wide(plan, call->delta)) {
        emit_quad(out, SUB, plan->tls_number, (int32_t)call->delta);
        return;
    }
    emit_half(out, SUB, plan->tls_number, (uint32_t)call->delta);
    call->half_sub = (uint16_t)out->at;
    emit_half(out, SBB, plan->tls_number + 4, (uint32_t)((uint64_t)call->delta >> 32));
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
static void emit_push_operand(struct assembler *out, const struct site *site,
                              const struct instruction *in, const unsigned char *bytes)
{
    unsigned char push[INSTRUCTION_MOST];
    if (site->thunk) { // of a retpoline, the register
        const uint8_t reg = site->thunk - 1;
        const unsigned char code[] = {0x41, 0x50 | (reg & 7)};
        emit(out, reg < 8 ? code + 1 : code, reg < 8 ? 1 : 2);
        return;
    }
    struct instruction as_push = *in;
    memcpy(push, bytes, in->length);
    push[in->opcode_at + 1] = (unsigned char)((push[in->opcode_at + 1] & 0xc7) | 0x30);
    as_push.flow = FLOW_NEXT;
    emit_moved(out, &as_push, push, site->address);
}

// lea 8(%rsp), %rsp: what was pushed is gone
static void emit_drop(struct assembler *out, struct stub_call *call)
{
    call->popped = (uint16_t)out->at;
    emit(out, "\x48\x8d\x64\x24\x08", 5);
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
            stub->moved[at] = (uint16_t)out->at;
        emit_moved(out, &in, bytes + at, site_start(site) + at);
    }
}

static bool is_tail(const struct site *site)
{
    return site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
}

static bool is_indirect(const struct site *site)
{
    return site->kind == SITE_CALL_INDIRECT || site->kind == SITE_TAIL_INDIRECT || site->thunk;
}

// jne over what follows; where its distance is to be put.
static size_t emit_skip(struct assembler *out)
{
    emit(out, "\x75\x00", 2);
    return out->at;
}

static void end_skip(struct assembler *out, size_t skip)
{
    if (out->at - skip > INT8_MAX)
        out->failed = true;
    else if (!out->failed)
        out->code[skip - 1] = (unsigned char)(out->at - skip);
}

// A call or jump to a constant, near or far. A far one's address comes right behind it, where it is
// not executed: behind a jump, or over a jump.
static void emit_constant(struct assembler *out, struct stub_call *call, bool tail)
{
    int32_t distance;
    const uintptr_t end = out->slot + out->at + JUMP_BYTES;
    // Before its place is known, the longer one.
    if (out->slot && moved_distance(end, call->target, &distance)) {
        emit(out, tail ? "\xe9" : "\xe8", 1);
        emit_distance(out, call->target);
        call->back = (uint16_t)out->at;
        return;
    }
    if (tail) {
        emit(out, "\xff\x25\x00\x00\x00\x00", 6); // jmp *0(%rip)
        call->back = (uint16_t)out->at;
        emit(out, &call->target, sizeof call->target);
        return;
    }
    emit(out, "\xff\x15\x02\x00\x00\x00", 6); // call *2(%rip)
    call->back = (uint16_t)out->at;
    emit(out, "\xeb\x08", 2);
    emit(out, &call->target, sizeof call->target);
}

// One target: compared with what is on the stack, half by half.
static void emit_arm(struct assembler *out, struct stub_call *call, const struct stub_plan *plan,
                     bool tail, size_t *join)
{
    call->start = (uint16_t)out->at;
    emit(out, "\x81\x3c\x24", 3); // cmpl $…, (%rsp)
    emit_word(out, (uint32_t)call->target);
    const size_t low = emit_skip(out);
    emit(out, "\x81\x7c\x24\x04", 4); // cmpl $…, 4(%rsp)
    emit_word(out, (uint32_t)(call->target >> 32));
    const size_t high = emit_skip(out);
    emit_drop(out, call);
    emit_add(out, call, plan);
    call->call = (uint16_t)out->at;
    emit_constant(out, call, tail);
    if (!tail) {
        emit_sub(out, call, plan);
        call->behind = (uint16_t)out->at;
        emit(out, "\xe9\x00\x00\x00\x00", 5); // to where all come together
        *join = out->at;
    }
    end_skip(out, low);
    end_skip(out, high);
}

static void emit_chain(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                       size_t *joins)
{
    struct stub_call measured = {0};
    for (unsigned i = 0; i < plan->arm_count && !out->failed; i++) {
        struct stub_call *call = out->slot ? &stub->arm[i] : &measured;
        *call = (struct stub_call){.target = plan->arms[i].target, .delta = plan->arms[i].delta};
        emit_arm(out, call, plan, is_tail(stub->site), &joins[i]);
    }
    stub->arm_count = out->slot ? plan->arm_count : 0;
}

static void end_joins(struct assembler *out, const size_t *joins, unsigned count)
{
    for (unsigned i = 0; i < count && !out->failed; i++) {
        const uint32_t distance = (uint32_t)(out->at - joins[i]);
        memcpy(out->code + joins[i] - 4, &distance, sizeof distance);
    }
}

// What comes before the call; returns where the distance to the hook's address is, or 0.
static size_t emit_before(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                          const struct instruction *in, const unsigned char *bytes, size_t *joins)
{
    const bool chain = plan->kind == STUB_CHAIN, hooks = chain || plan->kind == STUB_HOOK;
    const bool pushes =
        is_indirect(stub->site) && (chain || (hooks && plan->push_target && plan->before));
    if (plan->kind == STUB_DELTA)
        emit_add(out, &stub->call, plan);
    if (pushes) {
        emit_push_operand(out, stub->site, in, bytes);
        stub->pushed = (uint16_t)out->at;
    }
    if (chain)
        emit_chain(out, stub, plan, joins);
    stub->call.start = (uint16_t)out->at;
    const size_t hook = hooks && plan->before ? emit_hook(out) : 0;
    if (pushes)
        emit_drop(out, &stub->call);
    return hook;
}

static void emit_head(struct assembler *out, const struct site *site)
{
    const uintptr_t truth = is_tail(site) ? site->address + 1 : site->address + site->length;
    emit_word(out, (uint32_t)(truth - out->slot + DISTANCE_BIAS));
}

// What comes behind the call, up to the jump back; returns as emit_before() does.
static size_t emit_behind(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                          const unsigned char *bytes, const size_t *joins)
{
    const struct site *site = stub->site;
    const bool hooks = plan->kind == STUB_CHAIN || plan->kind == STUB_HOOK;
    if (plan->kind == STUB_DELTA)
        emit_sub(out, &stub->call, plan);
    const size_t hook = hooks && plan->after ? emit_hook(out) : 0;
    stub->call.behind = stub->behind = (uint16_t)out->at;
    if (plan->kind == STUB_CHAIN)
        end_joins(out, joins, plan->arm_count);
    emit_neighbours(out, stub, bytes, (unsigned)(site->lead + site->length), site->span);
    stub->end = (uint16_t)out->at;
    emit(out, "\xe9", 1);
    emit_distance(out, site_start(site) + site->span);
    return hook;
}

static void emit_all(struct assembler *out, struct stub *stub, const struct stub_plan *plan)
{
    const struct site *site = stub->site;
    unsigned char bytes[ORIGINAL_MOST];
    const unsigned char *call = bytes + site->lead;
    size_t joins[ARMS_MOST];
    struct instruction in;
    read_original(site, bytes);
    if (!decode(call, (size_t)(site->span - site->lead), &in) ||
        (plan->kind == STUB_CHAIN && (!is_indirect(site) || plan->arm_count > ARMS_MOST))) {
        out->failed = true;
        return;
    }
    emit_head(out, site);
    emit_neighbours(out, stub, bytes, 0, site->lead);
    stub->begin = (uint16_t)out->at;
    if (site->lead < JUMP_BYTES)
        stub->moved[site->lead] = stub->begin;
    const size_t before = emit_before(out, stub, plan, &in, call, joins);
    stub->call.call = (uint16_t)out->at;
    emit_site(out, site, &in, call);
    stub->call.back = (uint16_t)out->at;
    const size_t after = is_tail(site) ? 0 : emit_behind(out, stub, plan, bytes, joins);
    if (before)
        emit_literal(out, before, plan->before);
    if (after)
        emit_literal(out, after, plan->after);
}

size_t assemble(struct stub *stub, const struct stub_plan *plan, unsigned char code[STUB_MOST])
{
    struct assembler out = {code, 0, stub->code, false};
    stub->kind = (uint8_t)plan->kind;
    stub->wide = plan->kind == STUB_DELTA && is_wide(plan, plan->delta);
    stub->call.delta = plan->kind == STUB_DELTA ? plan->delta : 0;
    emit_all(&out, stub, plan);
    return out.failed ? 0 : out.at;
}

size_t assemble_size(struct site *site, const struct stub_plan *plan)
{
    unsigned char code[STUB_MOST];
    struct stub stub = {.site = site};
    return assemble(&stub, plan, code);
}
