// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_KNOWN_IDS_H
#define CAIRN_TRACK_CONTEXT_ID_KNOWN_IDS_H

// The short way to a context: inline, because a program may ask with every event.

#include "track/context_id/id_memo.h"
#include "track/encode/threads/epoch.h"

// Where a context is remembered. Of a stack that is empty the hash is 0.
static inline const struct context_id_memo *
context_id_memo_of(const struct context_id_thread *asked, uintptr_t pc, uint64_t id,
                   uint32_t stack_hash)
{
    const uint64_t hash =
        (pc ^ id << 20 ^ (uint64_t)stack_hash << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return &asked->memo[hash >> (64 - CONTEXT_ID_MEMO_BITS)];
}

// The remembered context of the number, with that stack; handle 0: none, or it cannot be trusted.
// `changes` were counted before the stack was looked at: a signal's handler that asks, too, is
// noticed by what it has changed.
//
// A state that is wrong for a reason that is known says so. A thread that is about to longjmp has
// the state of its landing place, and asks nothing before that. Sites that do not lead where the
// encoding says are found when it is made, before anything of it is remembered.
static inline struct context_id context_id_recall(const struct context_id_thread *asked,
                                                  uintptr_t pc, uintptr_t sp, uint32_t stack,
                                                  uint32_t stack_hash, uint32_t changes)
{
    const struct encode_state *state = &encode_state;
    const uint64_t id = state->context.id;
    const struct context_id_memo *memo = context_id_memo_of(asked, pc, id, stack_hash);
    const bool same = memo->pc == pc && memo->sp == sp && memo->id == id && memo->stack == stack &&
                      !state->context.over && !state->doubt && !encode_is_below_jump(state, sp) &&
                      *(const uintptr_t *)memo->slot == memo->caller;
    if (!same)
        return (struct context_id){0, 0};
    const struct context_id value = {id, memo->handle};
    // Last: if it was encoded anew meanwhile, the above was read from two encodings. A stamp that
    // is in force is the thread's own if it is on the encoding in force.
    atomic_signal_fence(memory_order_seq_cst);
    if (__atomic_load_n(&asked->changes, __ATOMIC_RELAXED) != changes ||
        memo->stamp != __atomic_load_n(&encode.numbering.options.stamp, __ATOMIC_RELAXED) ||
        !state->thread || encode_is_behind(state->thread))
        return (struct context_id){0, 0};
    return value;
}

static inline uint32_t context_id_changes(const struct context_id_thread *asked)
{
    const uint32_t changes = __atomic_load_n(&asked->changes, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    return changes;
}

// The fields of an entry beside its id, as one word.
static inline uint64_t context_id_rest(const struct cc_entry *entry)
{
    uint64_t rest;
    _Static_assert(sizeof *entry == 16 && offsetof(struct cc_entry, edge) == 8, "two words");
    __builtin_memcpy(&rest, &entry->edge, sizeof rest);
    return rest;
}

// The node of what is on ccStack, if that is what it was the last time; else 0.
static inline uint32_t context_id_same_stack(const struct context_id_thread *asked,
                                             const struct context_state *context)
{
    const struct intern_known *known = asked->known;
    const struct cc_entry *entry = context->stack;
    if (context->depth != asked->stack.count)
        return 0;
    for (const struct cc_entry *end = entry + context->depth; entry < end; entry++, known++)
        if (entry->id != known->entry.id ||
            context_id_rest(entry) != context_id_rest(&known->entry))
            return 0;
    return (uint32_t)known[-1].node;
}

// As context_id_known(), but only where ccStack is empty, or the same as the last time.
static inline struct context_id context_id_find(uintptr_t pc, uintptr_t sp)
{
    const struct context_id_thread *asked = context_id_current;
    const struct context_state *context = &encode_state.context;
    if (!asked)
        return (struct context_id){0, 0};
    const uint32_t changes = context_id_changes(asked);
    if (!context->depth)
        return context_id_recall(asked, pc, sp, asked->origin, 0, changes);
    const uint32_t stack = context_id_same_stack(asked, context);
    return context_id_recall(asked, pc, sp, stack, stack, changes);
}

#endif
