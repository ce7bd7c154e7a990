// SPDX-License-Identifier: MIT
#include "track/encode/contexts/event_context.h"
#include "track/encode/contexts/climb.h"
#include "track/encode/contexts/decode_state.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"

enum {
    UNNUMBERED_WALKED = 8, // of contexts that no number told, one in so many is looked at
    NUMBERED_WALKED = 256, // of those that one told: so that the edges of hot paths are known
    DOUBLED_MOST = 7,      // times, when it is always the same
};

// Whether it is the turn of this one.
static bool take_turn(struct encode_event_turns *turns, struct encode_turn *turn, uint32_t often)
{
    if (__builtin_expect(turn->left > 0, 1)) {
        turn->left--;
        return false;
    }
    // By another encoding more may have numbers, and what is hot is to be found out anew.
    const uint32_t stamp = encode_state.stamp;
    if (turns->stamp != stamp)
        turns->numbered.doubled = turns->unnumbered.doubled = 0;
    turns->stamp = stamp;
    turn->period = often << turn->doubled;
    turn->left = turn->period - 1;
    turns->turn = turn;
    return true;
}

// Walked, it has said the same as ever: to hear that again is not urgent.
static void wait_longer(struct encode_event_turns *turns)
{
    if (turns->turn && turns->turn->doubled < DOUBLED_MOST)
        turns->turn->doubled++;
}

static ref_t leave_to_walk(struct encode_event_turns *turns)
{
    turns->turn = NULL;
    turns->due = take_turn(turns, &turns->unnumbered, UNNUMBERED_WALKED) || encode.verify;
    return 0;
}

ref_t encode_event_node(struct walker *walker, uintptr_t pc, uintptr_t sp)
{
    struct encode_thread *thread = encode_current;
    struct encode_event_turns *turns = &thread->turns;
    if (!turns->some)
        return leave_to_walk(turns);
    if (!encode_is_sound(thread, sp)) {
        turns->unnumbered.doubled = 0; // a walk may mend it
        return leave_to_walk(turns);
    }
    const uint32_t changes = confirmed_changes(&thread->confirmed);
    const struct context_state *context = &thread->state->context;
    const struct confirmed *known =
        confirmed_find(&thread->confirmed, context_key(context, pc), pc);
    if (!known || !known->node || known->tree != walker->tree ||
        known->stamp != thread->state->stamp || sp + known->slot >= thread->stack.high ||
        !encode_still_holds(known, sp))
        return leave_to_walk(turns);
    const ref_t node = known->node;
    if (!confirmed_is_whole(&thread->confirmed, changes))
        return leave_to_walk(turns);
    turns->turn = NULL;
    turns->due = take_turn(turns, &turns->numbered, NUMBERED_WALKED) || encode.verify;
    if (turns->due)
        return 0;
    encode.counts->decoded++; // one may be lost, with threads
    walker->stats->verdicts[VERDICT_COMPLETE]++;
    return node;
}

// Whether the number says what a walk says. If the call that led to us went through a stub, in us
// ends a jump of what that called, or it is an indirect call of ours: then the state stays as it is,
// and whoever undoes the call later finds it so.
static bool says_the_same(struct encode_thread *thread, const struct caller_registers *caller)
{
    struct unwind_cursor cursor;
    struct stub_place place;
    struct encode_saved_state kept;
    unwind_start_here(&cursor, caller, (struct unwind_bounds){caller->sp, thread->stack.high});
    if (!sites_locate(caller->pc, &place))
        return encode_confirm(thread, &cursor, CONFIRM_OR_MEND);
    encode_save_state(thread, &kept);
    const bool same =
        encode_undo_call(thread, &place) && encode_confirm(thread, &cursor, CONFIRM_ONLY);
    encode_restore_state(thread, &kept);
    return same;
}

static void keep(struct encode_thread *thread, const struct walker *walker,
                 const struct caller_registers *caller, ref_t node)
{
    const struct context_state *context = &thread->state->context;
    const uintptr_t slot = thread->count ? thread->frames[0].slot : thread->root_slot;
    if (slot < caller->sp)
        return;
    thread->turns.some = true;
    confirmed_put(&thread->confirmed,
                  &(struct confirmed){
                      .key = context_key(context, caller->pc),
                      .at = caller->pc,
                      .caller = *(const uintptr_t *)slot,
                      .slot = slot - caller->sp,
                      .stamp = thread->state->stamp,
                      .unloads = atomic_load_explicit(&encode.unloads, memory_order_relaxed),
                      .tree = walker->tree,
                      .node = node,
                  });
}

void encode_event_walked(const struct walker *walker, const struct caller_registers *caller,
                         ref_t node)
{
    struct encode_thread *thread = encode_current;
    struct encode_event_turns *turns = &thread->turns;
    uint64_t mask;
    bool same = false;
    if (__builtin_expect(!turns->due, 1)) {
        encode.counts->walked++; // one may be lost, with threads
        return;
    }
    if (caller->sp >= thread->stack.low && caller->sp < thread->stack.high &&
        encode_lock(thread, &mask)) {
        same = says_the_same(thread, caller);
        if (same)
            keep(thread, walker, caller, node);
        encode_unlock(thread, &mask);
        if (same)
            encode_observe(thread);
        if (same == (turns->turn == &turns->numbered))
            wait_longer(turns);
        else if (turns->turn)
            turns->turn->doubled = 0;
    }
    encode_count(same ? &encode.counts->confirmed : &encode.counts->walked, 1);
}
