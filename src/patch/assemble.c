// SPDX-License-Identifier: MIT
#include "patch/assemble.h"
#include "patch/moved.h"
#include <string.h>

#define ORIGINAL_MOST (JUMP_BYTES + 2 * INSTRUCTION_MOST)
#define SCRATCH 11 // r11: nobody expects it to survive a call of an unknown function

#define IN_LINE 8 // targets that are compared one after the other; more are searched for in halves
#define IN_GROUP 4
#define GROUPS (STUB_ARMS / IN_GROUP)

// What a chain has to fill in when the rest of the stub is known.
struct chain {
    bool scratch, tail; // scratch: the target is in the scratch register, not on the stack
    // Those of the plan in the order of the code: by groups in order of address, if there are many.
    const struct stub_arm *arm[STUB_ARMS];
    size_t joins[STUB_ARMS], literals[STUB_ARMS];
    size_t misses[GROUPS]; // jumps behind the last of a group
    unsigned group_count, node_count;
    struct {
        size_t literal, jump;
        unsigned group; // the first that is not below it
    } node[2 * GROUPS];
};

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
enum { LOOKUP_ADD = 0x01, LOOKUP_SUB = 0x29 }; // of a register

// What is to be nothing, and can become an addition when the stub is renewed.
static void emit_nothing(struct assembler *out)
{
    emit(out, "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00", 9);
    emit(out, "\x0f\x1f\x40\x00", 4);
}

static bool is_wide(const struct stub_plan *plan, int64_t delta)
{
    return plan->wide || delta != (int32_t)delta;
}

// No register is used, so none has to be saved; the flags are dead around a call.
static void emit_add(struct assembler *out, struct stub_call *call, const struct stub_plan *plan)
{
    call->add = (uint16_t)out->at;
    if (call->delta == 0 && !plan->wide) {
        emit_nothing(out);
        return;
    }
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
    if (call->delta == 0 && !plan->wide) {
        emit_nothing(out);
        return;
    }
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

// `behind` is the end of the instruction that refers to it.
static void emit_literal(struct assembler *out, size_t behind, uintptr_t literal)
{
    const uint32_t distance = (uint32_t)(out->at - behind);
    if (!out->failed)
        memcpy(out->code + behind - 4, &distance, sizeof distance);
    emit(out, &literal, sizeof literal);
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

// The same for any distance, or another condition.
static size_t emit_far(struct assembler *out, const char *jump, size_t bytes)
{
    emit(out, jump, bytes);
    emit_word(out, 0);
    return out->at;
}

static void end_far(struct assembler *out, size_t jump)
{
    const uint32_t distance = (uint32_t)(out->at - jump);
    if (!out->failed)
        memcpy(out->code + jump - sizeof distance, &distance, sizeof distance);
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

// Compares the target, on the stack, half by half.
static void emit_compare_pushed(struct assembler *out, struct stub_call *call, uintptr_t target,
                                size_t skips[2])
{
    emit(out, "\x81\x3c\x24", 3); // cmpl $…, (%rsp)
    emit_word(out, (uint32_t)target);
    skips[0] = emit_skip(out);
    emit(out, "\x81\x7c\x24\x04", 4); // cmpl $…, 4(%rsp)
    emit_word(out, (uint32_t)(target >> 32));
    skips[1] = emit_skip(out);
    emit_drop(out, call);
}

// Compares the target, in the scratch register, with a literal; returns where its distance is.
static size_t emit_compare(struct assembler *out, size_t skips[2])
{
    emit(out, "\x4c\x3b\x1d", 3); // cmp literal(%rip), %r11
    emit_word(out, 0);
    const size_t literal = out->at;
    skips[0] = skips[1] = emit_skip(out);
    return literal;
}

// The same; if it is another one, it is none that the chain knows.
static size_t emit_last_compare(struct assembler *out, size_t *miss)
{
    emit(out, "\x4c\x3b\x1d", 3);
    emit_word(out, 0);
    const size_t literal = out->at;
    *miss = emit_far(out, "\x0f\x85", 2); // jne
    return literal;
}

// One target, with a call of its own. `miss`: the last of its group.
static size_t emit_arm(struct assembler *out, struct stub_call *call, const struct stub_plan *plan,
                       const struct chain *chain, const struct stub_arm *arm, size_t *join,
                       size_t *miss)
{
    size_t skips[2] = {0}, literal = 0;
    call->start = (uint16_t)out->at;
    if (miss)
        literal = emit_last_compare(out, miss);
    else if (chain->scratch)
        literal = emit_compare(out, skips);
    else
        emit_compare_pushed(out, call, arm->off ? 0 : arm->target, skips);
    emit_add(out, call, plan);
    call->call = (uint16_t)out->at;
    emit_constant(out, call, chain->tail);
    if (!chain->tail) {
        emit_sub(out, call, plan);
        call->behind = (uint16_t)out->at;
        emit(out, "\xe9\x00\x00\x00\x00", 5); // to where all come together
        *join = out->at;
    }
    if (miss)
        return literal;
    end_skip(out, skips[0]);
    end_skip(out, skips[1]);
    return literal;
}

static void order_arms(struct chain *chain, const struct stub_plan *plan)
{
    for (unsigned i = 0; i < plan->arm_count; i++) {
        unsigned at = i;
        for (; chain->group_count && at > 0 && plan->arms[i].target < chain->arm[at - 1]->target;
             at--)
            chain->arm[at] = chain->arm[at - 1];
        chain->arm[at] = &plan->arms[i];
    }
}

// Leads to the group that a target is in, of those from `low` to before `high`.
static void emit_search(struct assembler *out, struct chain *chain, unsigned low, unsigned high)
{
    const unsigned middle = (low + high) / 2, node = chain->node_count++;
    chain->node[node].group = high - low == 1 ? low : middle;
    if (high - low == 1) {
        chain->node[node].jump = emit_far(out, "\xe9", 1);
        chain->node[node].literal = 0;
        return;
    }
    emit(out, "\x4c\x3b\x1d", 3); // cmp literal(%rip), %r11
    emit_word(out, 0);
    chain->node[node].literal = out->at;
    const size_t upper = emit_far(out, "\x0f\x83", 2); // jae
    chain->node[node].jump = 0;
    emit_search(out, chain, low, middle);
    end_far(out, upper);
    emit_search(out, chain, middle, high);
}

static void end_search(struct assembler *out, struct chain *chain, unsigned group)
{
    for (unsigned i = 0; i < chain->node_count; i++)
        if (chain->node[i].jump && chain->node[i].group == group)
            end_far(out, chain->node[i].jump);
}

static void emit_chain(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                       struct chain *chain)
{
    struct stub_call measured = {0};
    if (chain->scratch && plan->arm_count > IN_LINE)
        chain->group_count = (plan->arm_count + IN_GROUP - 1) / IN_GROUP;
    order_arms(chain, plan);
    if (chain->group_count)
        emit_search(out, chain, 0, chain->group_count);
    for (unsigned i = 0; i < plan->arm_count && !out->failed; i++) {
        const struct stub_arm *arm = chain->arm[i];
        const unsigned group = i / IN_GROUP;
        const bool last =
            chain->group_count && (i % IN_GROUP == IN_GROUP - 1 || i + 1 == plan->arm_count);
        struct stub_call *call = out->slot ? &stub->arm[i] : &measured;
        *call = (struct stub_call){.target = arm->target, .delta = arm->delta};
        if (chain->group_count && i % IN_GROUP == 0)
            end_search(out, chain, group);
        chain->literals[i] = emit_arm(out, call, plan, chain, arm, &chain->joins[i],
                                      last ? &chain->misses[group] : NULL);
    }
    for (unsigned i = 0; i < chain->group_count; i++)
        end_far(out, chain->misses[i]);
    stub->arm_count = out->slot ? plan->arm_count : 0;
}

static void end_joins(struct assembler *out, const size_t *joins, unsigned count)
{
    for (unsigned i = 0; i < count && !out->failed; i++) {
        const uint32_t distance = (uint32_t)(out->at - joins[i]);
        memcpy(out->code + joins[i] - 4, &distance, sizeof distance);
    }
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
        end_joins(out, chain->joins, plan->arm_count);
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
    for (unsigned i = 0; chain.scratch && i < plan->arm_count; i++)
        emit_literal(out, chain.literals[i], chain.arm[i]->off ? 0 : chain.arm[i]->target);
    for (unsigned i = 0; i < chain.node_count; i++)
        if (chain.node[i].literal)
            emit_literal(out, chain.node[i].literal,
                         chain.arm[chain.node[i].group * IN_GROUP]->target);
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
