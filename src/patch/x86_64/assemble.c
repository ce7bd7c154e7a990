// SPDX-License-Identifier: MIT
#include "patch/x86_64/assemble.h"
#include "base/gc_hidden.h"
#include "patch/x86_64/chain.h"
#include "patch/x86_64/relocate.h"
#include <string.h>

#define ORIGINAL_MOST (JUMP_BYTES + 2 * INSTRUCTION_MOST)
#define SCRATCH 11 // r11: no caller expects it to survive a call of an unknown function

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

// Whether the scratch register may be used: not if the operand is made of it, nor in
// calls that look like those for thread-local storage, which preserve all registers.
static bool can_scratch(const struct site *site, const struct instruction *in,
                        const unsigned char *bytes)
{
    if (site->thunk)
        return site->thunk - 1 != SCRATCH;
    const bool plain = in->length == 2 && bytes[0] == 0xff && bytes[1] == 0x10; // call *(%rax)
    return !plain && !(in->prefixes & (PREFIX_ADDRESS | PREFIX_OPERAND)) &&
           (in->mod == 3 ? in->rm != SCRATCH : in->base != SCRATCH && in->index != SCRATCH);
}

// A call of a constant, near or far. A far one's address comes right behind it, and is jumped over.
static void emit_constant(struct assembler *out, uintptr_t target, uint16_t *back)
{
    int32_t distance;
    // Before its place is known, the longer one.
    if (out->slot && relocate_distance(out->slot + out->at + JUMP_BYTES, target, &distance)) {
        emit(out, "\xe8", 1);
        emit_distance(out, target);
        *back = (uint16_t)out->at;
        return;
    }
    emit(out, "\xff\x15\x02\x00\x00\x00", 6); // call *2(%rip)
    *back = (uint16_t)out->at;
    emit(out, "\xeb\x08", 2);
    emit(out, &target, sizeof target);
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

// The word of the thread's table is added or taken off, in %rax, which is on the stack meanwhile; a
// negative one is for the hook, aside. Returns where the way there is.
static size_t emit_lookup(struct assembler *out, const struct stub_plan *plan, uint8_t operation,
                          uint16_t *restored)
{
    const unsigned char change[] = {0x64, 0x48, operation, 0x04, 0x25};
    emit(out, "\x64\x48\x8b\x04\x25", 5); // mov %fs:table, %rax
    emit_word(out, (uint32_t)plan->tls_table);
    emit(out, "\x48\x8b\x80", 3); // mov 8*index(%rax), %rax
    emit_word(out, plan->index * 8);
    emit(out, "\x48\x85\xc0\x78\x00", 5); // test %rax, %rax; js aside
    const size_t aside = out->at;
    emit(out, change, sizeof change);
    emit_word(out, (uint32_t)plan->tls_number);
    *restored = (uint16_t)out->at;
    emit(out, "\x58", 1); // pop %rax
    return aside;
}

// Where a negative word is for the hook, out of the way of all others: ASIDE_BYTES. Returns where
// the distance to the hook's address is.
static size_t emit_aside(struct assembler *out, size_t from, uint16_t restored)
{
    end_skip(out, from);
    const size_t hook = emit_hook(out);
    const unsigned char back[] = {0xeb, (unsigned char)(restored - (out->at + 2))};
    out->failed |= out->at + 2 - restored > -INT8_MIN;
    emit(out, back, sizeof back);
    return hook;
}

// Emits the code before the call; returns where the distance to the hook's address is, or the way
// aside, or 0.
static size_t emit_before(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                          const struct instruction *in, const unsigned char *bytes)
{
    const bool hooks = plan->kind == STUB_HOOK && plan->before;
    const bool pushes = is_indirect(stub->site) && hooks && plan->push_target;
    if (plan->kind == STUB_TABLE) {
        // Of an indirect site, chains lead here, with the target on the stack.
        if (plan->target) {
            stub->pushed = (uint16_t)out->at;
            emit(out, "\x48\x89\x04\x24", 4); // mov %rax, (%rsp)
        } else {
            emit(out, "\x50", 1); // push %rax
            stub->pushed = (uint16_t)out->at;
        }
        return emit_lookup(out, plan, LOOKUP_ADD, &stub->call.popped);
    }
    if (plan->kind == STUB_PLAIN && plan->target) {
        stub->pushed = (uint16_t)out->at;
        emit_drop(out, &stub->call);
    }
    if (pushes) {
        emit_push_operand(out, stub->site, in, bytes);
        stub->pushed = (uint16_t)out->at;
    }
    const size_t hook = hooks ? emit_hook(out) : 0;
    if (pushes)
        emit_drop(out, &stub->call);
    return hook;
}

static void emit_whole_chain(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                             const struct instruction *in, const unsigned char *bytes)
{
    emit_push_operand(out, stub->site, in, bytes);
    stub->pushed = (uint16_t)out->at;
    emit_chain(out, plan, is_tail(stub->site), can_scratch(stub->site, in, bytes),
               &stub->call.popped);
}

static void emit_head(struct assembler *out, const struct site *site)
{
    const uintptr_t truth = is_tail(site) ? site->address + 1 : site->address + site->length;
    emit_word(out, (uint32_t)(truth - out->slot + DISTANCE_BIAS));
}

// Emits the code behind the call, up to the jump back; returns as emit_before() does.
static size_t emit_behind(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                          const unsigned char *bytes)
{
    const struct site *site = stub->site;
    size_t hook = plan->kind == STUB_HOOK && plan->after ? emit_hook(out) : 0;
    if (plan->kind == STUB_TABLE) {
        emit(out, "\x50", 1); // push %rax
        stub->saved = (uint16_t)out->at;
        hook = emit_lookup(out, plan, LOOKUP_SUB, &stub->restored);
    }
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
    struct instruction in;
    read_original(site, bytes);
    if (!decode(call, (size_t)(site->span - site->lead), &in) ||
        (plan->kind == STUB_CHAIN && (!is_indirect(site) || plan->arm_count > STUB_ARMS)) ||
        (plan->kind == STUB_TABLE && is_tail(site))) {
        out->failed = true;
        return;
    }
    emit_head(out, site);
    emit_neighbours(out, stub, bytes, 0, site->lead);
    stub->begin = (uint16_t)out->at;
    if (site->lead < JUMP_BYTES)
        stub->moved[site->lead] = stub->begin;
    if (plan->kind == STUB_CHAIN) {
        emit_whole_chain(out, stub, plan, &in, call);
        return;
    }
    size_t before = emit_before(out, stub, plan, &in, call);
    stub->call.call = (uint16_t)out->at;
    if (plan->target)
        emit_constant(out, plan->target, &stub->call.back);
    else
        emit_site(out, site, &in, call);
    if (!plan->target)
        stub->call.back = (uint16_t)out->at;
    size_t after = is_tail(site) ? 0 : emit_behind(out, stub, plan, bytes);
    if (plan->kind == STUB_TABLE) {
        stub->aside = (uint16_t)out->at;
        before = emit_aside(out, before, stub->call.popped);
        after = emit_aside(out, after, stub->restored);
    }
    if (before)
        emit_literal(out, before, (uintptr_t)plan->before);
    if (after)
        emit_literal(out, after, (uintptr_t)plan->after);
}

// ---- copies
//
// Stubs of direct calls by one plan differ in where they are and where they lead: most are copies
// of the one before. Under the lock.

#define COPIED_MOST 128
#define INDEX_AT 12 // in emit_lookup(), behind the push

static struct {
    size_t bytes; // 0: there is none
    struct stub_plan plan;
    struct stub stub;
    unsigned char code[COPIED_MOST];
} last;

static bool is_usual(const struct site *site, const struct stub_plan *plan)
{
    return site->kind == SITE_CALL && !site->thunk && site->span == JUMP_BYTES &&
           site->length == JUMP_BYTES && site->original[0] == 0xe8 && plan->kind != STUB_CHAIN &&
           !plan->target;
}

static bool is_copy(const struct site *site, const struct stub_plan *plan)
{
    return last.bytes && is_usual(site, plan) && plan->kind == last.plan.kind &&
           plan->before == last.plan.before && plan->after == last.plan.after &&
           plan->tls_number == last.plan.tls_number && plan->tls_table == last.plan.tls_table;
}

static void keep(const struct stub *stub, const struct stub_plan *plan, const unsigned char *code,
                 size_t bytes)
{
    if (bytes == 0 || bytes > COPIED_MOST || !is_usual(stub->site, plan))
        return;
    last.bytes = bytes;
    last.plan = *plan;
    last.stub = *stub;
    memcpy(last.code, code, bytes);
}

// Adapts a distance that another site has written at an offset.
static void rewrite_distance(struct assembler *out, size_t at, uintptr_t target)
{
    out->at = at;
    emit_distance(out, target);
}

static void rewrite_word(struct assembler *out, size_t at, uint32_t word)
{
    out->at = at;
    emit_word(out, word);
}

static size_t copy_last(struct stub *stub, const struct stub_plan *plan, unsigned char *code)
{
    struct assembler out = {code, 0, stub->code, false};
    const struct site *site = stub->site;
    const struct stub own = *stub;
    int32_t distance;
    memcpy(&distance, site->original + 1, sizeof distance);
    memcpy(code, last.code, last.bytes);
    *stub = last.stub;
    stub->site = own.site;
    stub->code = own.code;
    stub->shift = own.shift;
    stub->is_free = own.is_free;
    stub->displaced = own.displaced;
    stub->next_free = own.next_free;
    emit_head(&out, site);
    rewrite_distance(&out, stub->call.call + 1u,
                     site->address + JUMP_BYTES + (uintptr_t)(intptr_t)distance);
    rewrite_distance(&out, stub->end + 1u, site->address + JUMP_BYTES);
    if (plan->kind == STUB_TABLE) {
        stub->index = plan->index;
        rewrite_word(&out, stub->pushed + (size_t)INDEX_AT, plan->index * 8);
        rewrite_word(&out, stub->saved + (size_t)INDEX_AT, plan->index * 8);
    }
    return out.failed ? 0 : last.bytes;
}

size_t assemble(struct stub *stub, const struct stub_plan *plan, unsigned char code[STUB_MOST])
{
    if (is_copy(stub->site, plan))
        return copy_last(stub, plan, code);
    struct assembler out = {code, 0, stub->code, false};
    stub->kind = (uint8_t)plan->kind;
    stub->call.target = plan->target;
    stub->otherwise = plan->kind == STUB_CHAIN ? plan->otherwise : NULL;
    stub->index = plan->kind == STUB_TABLE ? plan->index : 0;
    emit_all(&out, stub, plan);
    const size_t bytes = out.failed ? 0 : out.at;
    keep(stub, plan, code, bytes);
    return bytes;
}

size_t assemble_size(struct site *site, const struct stub_plan *plan)
{
    if (is_copy(site, plan))
        return last.bytes;
    static unsigned char code[STUB_MOST] GC_HIDDEN; // under the lock
    struct stub stub = {.site = site};
    return assemble(&stub, plan, code);
}
