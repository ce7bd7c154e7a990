// SPDX-License-Identifier: MIT
#include "patch/x86_64/chain.h"
#include "base/gc_hidden.h"
#include "patch/stubs/bump_allocator.h"

#define IN_LINE 4 // targets that are compared one after the other; more are looked up
#define BUCKETS_MOST (4 * STUB_ARMS)
#define SHIFT_LEAST 3 // entries of the table have eight bytes
#define SHIFT_MOST 20

// The parts of one chain that is being emitted. Under the lock, and too large for the stack of a
// program.
static struct {
    uint16_t next[STUB_ARMS]; // another arm of the same bucket, one more than its index; 0: none
    uint16_t first[BUCKETS_MOST]; // of a bucket, likewise
    size_t lands[STUB_ARMS];      // jumps of arms to where the target leaves the stack
    unsigned land_count;
} chain GC_HIDDEN;

// From here on it is the turn of another stub, which finds the target on the stack.
static uintptr_t entry_of(const struct stub *stub)
{
    return stub->code + stub->pushed;
}

static void emit_arm(struct assembler *out, const struct stub_arm *arm, bool tail)
{
    emit(out, "\x81\x3c\x24", 3); // cmpl $…, (%rsp)
    emit_word(out, (uint32_t)arm->target);
    const size_t skip = emit_skip(out);
    emit(out, "\x81\x7c\x24\x04", 4); // cmpl $…, 4(%rsp)
    emit_word(out, (uint32_t)(arm->target >> 32));
    if (tail) {
        chain.lands[chain.land_count++] = emit_far(out, "\x0f\x84", 2); // je
    } else {
        emit(out, "\x0f\x84", 2);
        emit_distance(out, entry_of(arm->stub));
    }
    end_skip(out, skip);
}

static void emit_miss(struct assembler *out, const struct stub_plan *plan)
{
    emit(out, "\xe9", 1);
    emit_distance(out, entry_of(plan->otherwise));
}

static unsigned bucket_of(uintptr_t target, unsigned shift, unsigned buckets)
{
    return (uint32_t)target >> shift & (buckets - 1);
}

// How often a target is in a bucket with another one.
static unsigned sort_into_buckets(const struct stub_plan *plan, unsigned shift, unsigned buckets)
{
    unsigned shared = 0;
    for (unsigned i = 0; i < buckets; i++)
        chain.first[i] = 0;
    // The first of the plan are the hottest.
    for (unsigned i = plan->arm_count; i-- > 0;) {
        uint16_t *first = &chain.first[bucket_of(plan->arms[i].target, shift, buckets)];
        shared += *first != 0;
        chain.next[i] = *first;
        *first = (uint16_t)(i + 1);
    }
    return shared;
}

static unsigned best_shift(const struct stub_plan *plan, unsigned buckets)
{
    unsigned best = SHIFT_LEAST, least = UINT32_MAX;
    for (unsigned shift = SHIFT_LEAST; shift <= SHIFT_MOST && least > 0; shift++) {
        const unsigned shared = sort_into_buckets(plan, shift, buckets);
        if (shared < least) {
            least = shared;
            best = shift;
        }
    }
    sort_into_buckets(plan, best, buckets);
    return best;
}

// The table is data, and lies elsewhere.
static void emit_lookup(struct assembler *out, const struct stub_plan *plan, bool tail)
{
    unsigned buckets = 2 * IN_LINE;
    while (buckets < 2 * plan->arm_count)
        buckets *= 2;
    const unsigned shift = best_shift(plan, buckets);
    const unsigned char shr[] = {0x41, 0xc1, 0xeb, (unsigned char)(shift - SHIFT_LEAST)};
    uintptr_t *table = out->slot ? bump_take(buckets * sizeof *table) : NULL;
    out->failed |= out->slot && !table;
    emit(out, "\x44\x8b\x1c\x24", 4); // mov (%rsp), %r11d
    emit(out, shr, sizeof shr);       // shr $…, %r11d
    emit(out, "\x41\x81\xe3", 3);     // and $…, %r11d
    emit_word(out, (buckets - 1) << SHIFT_LEAST);
    emit(out, "\x4c\x03\x1d", 3); // add table(%rip), %r11
    emit_word(out, 0);
    const size_t literal = out->at;
    emit(out, "\x41\xff\x23", 3); // jmp *(%r11)
    for (unsigned i = 0; i < buckets; i++) {
        if (table)
            table[i] = chain.first[i] ? out->slot + out->at : entry_of(plan->otherwise);
        for (unsigned arm = chain.first[i]; arm; arm = chain.next[arm - 1])
            emit_arm(out, &plan->arms[arm - 1], tail);
        if (chain.first[i])
            emit_miss(out, plan);
    }
    emit_literal(out, literal, (uintptr_t)table);
}

void emit_chain(struct assembler *out, const struct stub_plan *plan, bool tail, bool scratch,
                uint16_t *popped)
{
    chain.land_count = 0;
    if (scratch && plan->arm_count > IN_LINE) {
        emit_lookup(out, plan, tail);
    } else {
        for (unsigned i = 0; i < plan->arm_count; i++)
            emit_arm(out, &plan->arms[i], tail);
        emit_miss(out, plan);
    }
    if (!tail)
        return;
    for (unsigned i = 0; i < chain.land_count; i++)
        end_far(out, chain.lands[i]);
    *popped = (uint16_t)out->at;
    emit(out, scratch ? "\x41\x5b\x41\xff\xe3" : "\xc3", scratch ? 5 : 1); // pop %r11; jmp *%r11
}
