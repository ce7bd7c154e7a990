// SPDX-License-Identifier: MIT
#include "track/encode/contexts/event_context.h"
#include "track/encode/contexts/climb.h"
#include "track/encode/contexts/decode_state.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"

enum {
    UNTOLD_WALKED = 8, // of contexts that no number told, one in so many is looked at
    TOLD_WALKED = 256, // of those that one told: so that the edges of hot paths are known
    DOUBLED_MOST = 7,  // times, when it is always the same
};

static bool is_of(const struct encode_note *note, const struct encode_thread *thread,
                  const struct walker *walker, uintptr_t pc, uintptr_t sp)
{
    const struct context_state *context = &thread->state->context;
    return note->pc == pc && note->id == context->id && note->depth == context->depth &&
           note->tree == walker->tree && note->stamp == thread->epoch->dictionary->stamp &&
           note->unloads == atomic_load_explicit(&encode.unloads, memory_order_relaxed) &&
           sp + note->distance < thread->stack.high &&
           *(const uintptr_t *)(sp + note->distance) == note->caller;
}

// Two contexts that come in turns and have the same place would both be walked each time.
static uint32_t other_place(uint64_t key)
{
    return (uint32_t)(key / ENCODE_NOTES % ENCODE_NOTES);
}

// Whether it is the turn of this one.
static bool take_turn(struct encode_event_cache *notes, struct encode_turn *turn, uint32_t often)
{
    if (__builtin_expect(turn->left > 0, 1)) {
        turn->left--;
        return false;
    }
    // By another encoding more may be told, and what is hot is to be found out anew.
    const uint32_t stamp = encode_current->epoch->dictionary->stamp;
    if (notes->stamp != stamp)
        notes->told.doubled = notes->untold.doubled = 0;
    notes->stamp = stamp;
    turn->period = often << turn->doubled;
    turn->left = turn->period - 1;
    notes->turn = turn;
    return true;
}

// Walked, it has said the same as ever: to hear that again is not urgent.
static void wait_longer(struct encode_event_cache *notes)
{
    if (notes->turn && notes->turn->doubled < DOUBLED_MOST)
        notes->turn->doubled++;
}

static ref_t untold(struct encode_event_cache *notes)
{
    notes->turn = NULL;
    notes->due = take_turn(notes, &notes->untold, UNTOLD_WALKED) || encode.verify;
    return 0;
}

ref_t encode_event_node(struct encode_event_cache *notes, struct walker *walker, uintptr_t pc,
                        uintptr_t sp)
{
    const struct encode_thread *thread = encode_current;
    if (!notes->some)
        return untold(notes);
    if (!encode_is_sound(thread, sp)) {
        notes->untold.doubled = 0; // a walk may mend it
        return untold(notes);
    }
    const uint64_t key = context_key(&thread->state->context, pc);
    const struct encode_note *note = &notes->note[key % ENCODE_NOTES];
    if (note->key != key)
        note = &notes->note[other_place(key)];
    if (note->key != key || !is_of(note, thread, walker, pc, sp))
        return untold(notes);
    notes->turn = NULL;
    notes->due = take_turn(notes, &notes->told, TOLD_WALKED) || encode.verify;
    if (notes->due)
        return 0;
    encode.counts->decoded++; // one may be lost, with threads
    walker->stats->verdicts[VERDICT_COMPLETE]++;
    return note->node;
}

// Whether the number says what a walk says. If it is wrong, *wrong is set. Under the lock.
static bool confirm(struct encode_thread *thread, struct unwind_cursor *cursor, bool *wrong)
{
    const place_t function = cursor->frame.function;
    const uintptr_t sp = cursor->sp;
    if (!encode_walk(thread, cursor) || thread->has_signal || thread->has_gap ||
        thread->has_unwinder)
        return false;
    if (thread->jumping)
        thread->jumping = !encode_has_landed(thread);
    *wrong = !encode_is_sound(thread, sp) || !encode_pushes_match(thread);
    if (*wrong)
        return false;
    const bool decoded = encode_decode_state(thread, function);
    const bool same = decoded && encode_compare(thread, 0);
    encode_count(&encode.counts->verified, decoded && encode_is_comparable(thread));
    encode_count(&encode.counts->mismatches, decoded && !same && encode_is_comparable(thread));
    encode_count(&encode.counts->undecoded, !decoded);
    *wrong = !same;
    return same;
}

// The same where the call that led to us went through a stub: in us ends a jump of what that
// called, or it is an indirect call of ours. The state stays as it is; who undoes it later finds
// it.
static bool confirm_in_stub(struct encode_thread *thread, const struct stub_place *place,
                            struct unwind_cursor *cursor)
{
    struct encode_saved_state kept;
    bool wrong = false;
    encode_save_state(thread, &kept);
    const bool same = encode_undo_call(thread, place) && confirm(thread, cursor, &wrong);
    encode_restore_state(thread, &kept);
    return same;
}

static bool says_the_same(struct encode_thread *thread, uintptr_t pc, uintptr_t sp, uintptr_t bp)
{
    struct unwind_cursor cursor;
    struct stub_place place;
    bool wrong = false;
    unwind_start_here(&cursor, pc, sp, bp, (struct unwind_bounds){sp, thread->stack.high});
    if (sites_locate(pc, &place))
        return confirm_in_stub(thread, &place, &cursor);
    const bool same = confirm(thread, &cursor, &wrong);
    if (wrong) // what the stack says holds
        encode_resync(thread, 0);
    return same;
}

static void keep(struct encode_event_cache *notes, const struct encode_thread *thread,
                 const struct walker *walker, uintptr_t pc, uintptr_t sp, ref_t node)
{
    const struct context_state *context = &thread->state->context;
    const uintptr_t slot = thread->count ? thread->frames[0].slot : thread->root_slot;
    const uint64_t key = context_key(context, pc);
    if (slot < sp || slot - sp > INT32_MAX)
        return;
    const uint32_t stamp = thread->epoch->dictionary->stamp;
    struct encode_note *note = &notes->note[key % ENCODE_NOTES];
    if (note->key && note->key != key && note->stamp == stamp)
        note = &notes->note[other_place(key)];
    notes->some = true;
    *note = (struct encode_note){
        .key = key,
        .id = context->id,
        .pc = pc,
        .caller = *(const uintptr_t *)slot,
        .distance = (uint32_t)(slot - sp),
        .depth = context->depth,
        .stamp = stamp,
        .unloads = atomic_load_explicit(&encode.unloads, memory_order_relaxed),
        .tree = walker->tree,
        .node = node,
    };
}

void encode_event_walked(struct encode_event_cache *notes, const struct walker *walker,
                         uintptr_t pc, uintptr_t sp, uintptr_t bp, ref_t node)
{
    struct encode_thread *thread = encode_current;
    uint64_t mask;
    bool same = false;
    if (notes->due && sp >= thread->stack.low && sp < thread->stack.high &&
        encode_lock(thread, &mask)) {
        thread->busy = false; // we are, and nobody else
        same = says_the_same(thread, pc, sp, bp);
        if (same)
            keep(notes, thread, walker, pc, sp, node);
        thread->busy = true;
        encode_unlock(thread, &mask);
        if (same)
            encode_observe(thread);
        if (same == (notes->turn == &notes->told))
            wait_longer(notes);
        else if (notes->turn)
            notes->turn->doubled = 0;
    }
    encode_count(same ? &encode.counts->confirmed : &encode.counts->walked, 1);
}
