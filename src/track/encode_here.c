// SPDX-License-Identifier: MIT
#include "track/encode_here.h"
#include "track/encode_parts.h"

#define MISSES_TRIED 8  // of contexts that no number told, one in so many is looked at
#define HITS_WALKED 256 // of those that one told: so that the edges of hot paths are known

static bool is_of(const struct encode_note *note, const struct encode_thread *thread,
                  const struct walker *walker, uintptr_t pc, uintptr_t sp)
{
    const struct machine *machine = &thread->state->machine;
    return note->pc == pc && note->id == machine->id && note->depth == machine->depth &&
           note->tree == walker->tree && note->stamp == thread->epoch->dictionary->stamp &&
           sp + note->distance < thread->stack.high &&
           *(const uintptr_t *)(sp + note->distance) == note->caller;
}

ref_t encode_here(struct encode_notes *notes, struct walker *walker, uintptr_t pc, uintptr_t sp)
{
    const struct encode_thread *thread = encode_current;
    const uint64_t key = encode_key(&thread->state->machine, pc);
    const struct encode_note *note = &notes->note[key % ENCODE_NOTES];
    if (note->key != key || !encode_is_sound(thread, sp) || !is_of(note, thread, walker, pc, sp)) {
        // What did not tell may do so later: new edges are numbered.
        notes->due = notes->misses++ % MISSES_TRIED == 0 || encode.verify;
        return 0;
    }
    notes->due = ++notes->hits % HITS_WALKED == 0 || encode.verify;
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
    if (!encode_walk(thread, cursor) || thread->has_signal || thread->has_gap)
        return false;
    if (thread->jumping)
        thread->jumping = !encode_has_landed(thread);
    *wrong = !encode_is_sound(thread, sp);
    if (*wrong)
        return false;
    const bool decoded = encode_decode_state(thread, function);
    const bool same = decoded && encode_compare(thread, 0);
    encode_count(&encode.counts->verified, decoded && (same || !thread->is_guess));
    encode_count(&encode.counts->mismatches, decoded && !same && !thread->is_guess);
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
    struct encode_kept kept;
    bool wrong = false;
    encode_keep_state(thread, &kept);
    const bool same = encode_undo_call(thread, place) && confirm(thread, cursor, &wrong);
    encode_restore_state(thread, &kept);
    // The call itself is not among the frames.
    if (wrong && encode_demand(thread, place->pc - 1))
        encode_redo_call(thread, place);
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
    const bool changed = (wrong || (same && thread->is_guess)) && encode_demand(thread, pc - 1);
    if (wrong && !changed) // what the stack says holds
        encode_go_on(thread);
    return same && !changed;
}

static void keep(struct encode_notes *notes, const struct encode_thread *thread,
                 const struct walker *walker, uintptr_t pc, uintptr_t sp, ref_t node)
{
    const struct machine *machine = &thread->state->machine;
    const uintptr_t slot = thread->count ? thread->frames[0].slot : thread->root_slot;
    const uint64_t key = encode_key(machine, pc);
    if (slot < sp || slot - sp > INT32_MAX)
        return;
    notes->note[key % ENCODE_NOTES] = (struct encode_note){
        .key = key,
        .id = machine->id,
        .pc = pc,
        .caller = *(const uintptr_t *)slot,
        .distance = (uint32_t)(slot - sp),
        .depth = machine->depth,
        .stamp = thread->epoch->dictionary->stamp,
        .tree = walker->tree,
        .node = node,
    };
}

void encode_here_walked(struct encode_notes *notes, const struct walker *walker, uintptr_t pc,
                        uintptr_t sp, uintptr_t bp, ref_t node)
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
    }
    encode_count(same ? &encode.counts->confirmed : &encode.counts->walked, 1);
}
