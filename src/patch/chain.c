// SPDX-License-Identifier: MIT
#include "patch/chain.h"

#define IN_LINE 8 // targets that are compared one after the other; more are searched for in halves

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

// cmp literal(%rip), %r11, the scratch register; returns where the literal's distance is.
static size_t emit_compare(struct assembler *out)
{
    emit(out, "\x4c\x3b\x1d", 3);
    emit_word(out, 0);
    return out->at;
}

// One target, with a call of its own. `miss`: the last of its group.
static size_t emit_arm(struct assembler *out, struct stub_call *call, const struct stub_plan *plan,
                       const struct chain *chain, const struct stub_arm *arm, size_t *join,
                       size_t *miss)
{
    size_t skips[2] = {0}, literal = 0;
    call->start = (uint16_t)out->at;
    if (chain->scratch)
        literal = emit_compare(out);
    if (miss)                                 // another one is none that the chain knows
        *miss = emit_far(out, "\x0f\x85", 2); // jne
    else if (chain->scratch)
        skips[0] = skips[1] = emit_skip(out);
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
    chain->node[node].literal = emit_compare(out);
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

void emit_chain(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
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

void end_joins(struct assembler *out, const struct chain *chain, const struct stub_plan *plan)
{
    for (unsigned i = 0; i < plan->arm_count; i++)
        end_far(out, chain->joins[i]);
}

void end_chain(struct assembler *out, const struct chain *chain, const struct stub_plan *plan)
{
    for (unsigned i = 0; chain->scratch && i < plan->arm_count; i++)
        emit_literal(out, chain->literals[i], chain->arm[i]->off ? 0 : chain->arm[i]->target);
    for (unsigned i = 0; i < chain->node_count; i++)
        if (chain->node[i].literal)
            emit_literal(out, chain->node[i].literal,
                         chain->arm[chain->node[i].group * IN_GROUP]->target);
}
