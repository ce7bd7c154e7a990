// SPDX-License-Identifier: MIT
#include "patch/assemble.h"
#include "patch/chain.h"
#include <string.h>

#define ORIGINAL_MOST (JUMP_BYTES + 2 * INSTRUCTION_MOST)
#define SCRATCH 11 // r11: nobody expects it to survive a call of an unknown function

enum { LOOKUP_ADD = 0x01, LOOKUP_SUB = 0x29 }; // of a register

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

// The operand of an indirect call or jump, loaded into the scratch register: the same as a mov.
static void emit_load_operand(struct assembler *out, const struct site *site,
                              const struct instruction *in, const unsigned char *bytes)
{
    unsigned char load[INSTRUCTION_MOST + 1] = {0x49, 0x89, 0xc3}; // mov %rax, %r11
    struct instruction as_load;
    if (site->thunk) {
        const uint8_t reg = site->thunk - 1;
        load[0] |= reg < 8 ? 0 : 4;
        load[2] |= (unsigned char)((reg & 7) << 3);
        emit(out, load, 3);
        return;
    }
    size_t at = 0;
    for (unsigned i = 0; i < in->opcode_at; i++)
        if (bytes[i] == 0x64 || bytes[i] == 0x65)
            load[at++] = bytes[i];
    load[at++] = (unsigned char)(0x4c | (in->rex & 3)); // the bits of base and index stay
    load[at++] = 0x8b;
    memcpy(load + at, bytes + in->opcode_at + 1, in->length - in->opcode_at - 1u);
    load[at] = (unsigned char)((load[at] & 0xc7) | (SCRATCH & 7) << 3);
    at += in->length - in->opcode_at - 1u;
    if (!decode(load, at, &as_load) || as_load.length != at) {
        out->failed = true;
        return;
    }
    // A displacement from the instruction's end means the same place.
    emit_moved(out, &as_load, load, site->address + in->length - at);
}

// Whether the target may be kept in the scratch register: not if the operand is made of it, nor in
// calls that look like those for thread-local storage, which preserve all registers.
static bool can_scratch(const struct site *site, const struct instruction *in,
                        const unsigned char *bytes)
{
    if (site->thunk)
        return site->thunk - 1 != SCRATCH;
    const bool plain = in->length == 2 && bytes[0] == 0xff && bytes[1] == 0x10; // call *(%rax)
    return !plain && !(in->prefixes & (PREFIX_ADDRESS | PREFIX_OPERAND)) &&
           (in->mod == 3 || (in->base != SCRATCH && in->index != SCRATCH));
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

// The word of the thread's table is added or taken off; a negative one is for the hook. Returns
// where the distance to the hook's address is.
static size_t emit_lookup(struct assembler *out, const struct stub_plan *plan, uint8_t operation,
                          uint16_t *saved, uint16_t *restored)
{
    const unsigned char change[] = {0x64, 0x48, operation, 0x04, 0x25};
    emit(out, "\x50", 1); // push %rax
    *saved = (uint16_t)out->at;
    emit(out, "\x64\x48\x8b\x04\x25", 5); // mov %fs:table, %rax
    emit_word(out, (uint32_t)plan->tls_table);
    emit(out, "\x48\x8b\x80", 3); // mov 8*index(%rax), %rax
    emit_word(out, plan->index * 8);
    emit(out, "\x48\x85\xc0\x79\x08", 5); // test %rax, %rax; jns over the next two
    const size_t hook = emit_hook(out);
    emit(out, "\xeb\x09", 2); // jmp over the next one
    emit(out, change, sizeof change);
    emit_word(out, (uint32_t)plan->tls_number);
    *restored = (uint16_t)out->at;
    emit(out, "\x58", 1); // pop %rax
    return hook;
}

// What comes before the call; returns where the distance to the hook's address is, or 0.
static size_t emit_before(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                          const struct instruction *in, const unsigned char *bytes,
                          struct chain *chain)
{
    const bool chains = plan->kind == STUB_CHAIN, hooks = chains || plan->kind == STUB_HOOK;
    const bool pushes =
        is_indirect(stub->site) && (chains || (hooks && plan->push_target && plan->before));
    if (plan->kind == STUB_DELTA)
        emit_add(out, &stub->call, plan);
    if (plan->kind == STUB_TABLE)
        return emit_lookup(out, plan, LOOKUP_ADD, &stub->pushed, &stub->call.popped);
    chain->scratch = chains && can_scratch(stub->site, in, bytes);
    chain->tail = is_tail(stub->site);
    if (chain->scratch) {
        emit_load_operand(out, stub->site, in, bytes);
        emit_chain(out, stub, plan, chain);
        stub->call.start = (uint16_t)out->at;
    }
    if (pushes && chain->scratch)
        emit(out, "\x41\x53", 2); // push %r11
    else if (pushes)
        emit_push_operand(out, stub->site, in, bytes);
    if (pushes)
        stub->pushed = (uint16_t)out->at;
    if (chains && !chain->scratch)
        emit_chain(out, stub, plan, chain);
    if (!chain->scratch)
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
                          const unsigned char *bytes, const struct chain *chain)
{
    const struct site *site = stub->site;
    const bool hooks = plan->kind == STUB_CHAIN || plan->kind == STUB_HOOK;
    if (plan->kind == STUB_DELTA)
        emit_sub(out, &stub->call, plan);
    size_t hook = hooks && plan->after ? emit_hook(out) : 0;
    if (plan->kind == STUB_TABLE)
        hook = emit_lookup(out, plan, LOOKUP_SUB, &stub->saved, &stub->restored);
    stub->call.behind = stub->behind = (uint16_t)out->at;
    if (plan->kind == STUB_CHAIN)
        end_joins(out, chain, plan);
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
    struct chain chain = {0};
    struct instruction in;
    read_original(site, bytes);
    if (!decode(call, (size_t)(site->span - site->lead), &in) ||
        (plan->kind == STUB_CHAIN && (!is_indirect(site) || plan->arm_count > STUB_ARMS))) {
        out->failed = true;
        return;
    }
    emit_head(out, site);
    emit_neighbours(out, stub, bytes, 0, site->lead);
    stub->begin = (uint16_t)out->at;
    if (site->lead < JUMP_BYTES)
        stub->moved[site->lead] = stub->begin;
    const size_t before = emit_before(out, stub, plan, &in, call, &chain);
    stub->call.call = (uint16_t)out->at;
    emit_site(out, site, &in, call);
    stub->call.back = (uint16_t)out->at;
    const size_t after = is_tail(site) ? 0 : emit_behind(out, stub, plan, bytes, &chain);
    if (before)
        emit_literal(out, before, (uintptr_t)plan->before);
    if (after)
        emit_literal(out, after, (uintptr_t)plan->after);
    end_chain(out, &chain, plan);
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
