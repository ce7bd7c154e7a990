// SPDX-License-Identifier: MIT
// From a sample to its node. A context is (id, ccStack, function). One that was seen before is
// found by these; a new one is decoded and walked, and remembered if both agree: so a number that
// means nothing, for whatever reason, costs a walk and no more. If they do not agree the state is
// computed anew from the walk.

#include "track/encode/contexts/climb.h"
#include "track/encode/contexts/decode_state.h"
#include "track/encode/contexts/insert_path.h"
#include "track/encode/threads/count_pushes.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/hooks.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"
#include "track/walk/unmarkable.h"
#include "unwind/arch.h"
#include "unwind/stack.h"

static ref_t node_of_statement(struct walker *walker, ref_t frame, place_t statement)
{
    ref_t edge = tree_edge(walker->arena, walker->tree, statement, 0);
    ref_t node = tree_child(walker->arena, walker->tree, frame, edge);
    if (node)
        return node;
    walker->stats->unplaced++;
    return tree_unplaced(walker->arena, walker->tree, frame);
}

// In a hook, or in a stub that is not known to have changed nothing.
static bool is_ours(const struct encode_thread *thread, const struct unwind_cursor *cursor,
                    uintptr_t pc)
{
    struct stub_place place;
    return unmarkable_is_agent(cursor->frame.function) ||
           (!thread->in_stub && sites_locate(pc, &place));
}

// A stub has added a number before a call, or is to take it off behind it: the state becomes that
// of the caller. False: what it has done is not known.
static bool undo_stub(const struct encode_thread *thread, const struct stub_place *place)
{
    if (place->hooked || !place->by_table || !thread->epoch)
        return !place->hooked;
    const int64_t word = encode_word(thread, place->index);
    if (word >= 0 && place->added)
        thread->state->context.id -= (uint64_t)word;
    return word >= 0;
}

// Whether something is wrong with the moment: then the number says nothing of the stack.
static bool is_outside(const struct encode_thread *thread, const struct unwind_cursor *cursor,
                       uintptr_t pc)
{
    return !encode_is_sound(thread, cursor->sp) || is_ours(thread, cursor, pc);
}

// The state was wrong, or the stack is one that numbers cannot tell: what the stack says holds.
static void recompute_state(struct encode_thread *thread)
{
    // The stack does not tell what a hook has done to the state already.
    if (thread->obstacles & (OBSTACLE_SIGNAL | OBSTACLE_GAP | OBSTACLE_HOOK) || thread->in_stub ||
        !encode_try_lock())
        return;
    encode_resync(thread, 0);
    encode_release_lock();
}

// Whether the function that the program called to jump is on the stack no more.
static bool has_landed(struct encode_thread *thread, struct unwind_cursor cursor)
{
    if (cursor.sp > thread->jump_sp)
        return true; // what is there lies deeper
    return encode_walk(thread, &cursor) && encode_has_landed(thread);
}

// A sample was decoded, so many frames from where it was.
static void count_decoded(const struct encode_climbed *climbed, bool further)
{
    struct live_encode *counts = encode.counts;
    encode_count(further               ? &counts->climbed
                 : climbed->frames > 0 ? &counts->from_leaf
                                       : &counts->direct,
                 1);
}

static ref_t fall_back(struct walker *walker, void *ucontext, uint64_t weight)
{
    encode_count(&encode.counts->walked, 1);
    return walk_sample(walker, ucontext, weight);
}

// The node so many frames above; 0: there is none.
static ref_t ancestor(const struct walker *walker, ref_t node, unsigned frames)
{
    for (; frames > 0 && node; frames--)
        node = ((const struct node *)arena_at(walker->arena, node))->parent;
    return node;
}

// The answer of the numbers about a walked stack.
struct finding {
    bool decoded, same;
    place_t function; // of the frame whose number it is
    uint64_t key;
    unsigned least; // frames to be climbed at any rate
};

static void ask_number(struct encode_thread *thread, const struct unwind_cursor *called,
                       const struct encode_climbed *climbed, bool walked, struct finding *finding)
{
    finding->function = called->frame.function;
    finding->key = context_key(&thread->state->context, confirmed_frame(finding->function));
    finding->decoded = encode_decode_state(thread, finding->function);
    finding->same = finding->decoded && walked && encode_compare(thread, climbed->frames);
}

// Climbs from the sample until a number is sure of its context. If none is, what the first one says
// holds.
static struct finding ask_numbers(struct encode_thread *thread, const struct unwind_cursor *start,
                                  struct encode_climbed *climbed, bool walked)
{
    struct unwind_cursor called = *start;
    struct finding finding = {0};
    climbed->frames = climbed->count = 0;
    if (walked && !(thread->obstacles & (OBSTACLE_SIGNAL | OBSTACLE_GAP)) &&
        !encode_pushes_match(thread))
        return finding;
    const bool climbs = encode_climb(thread, &called, climbed, 0);
    bool sure = false, goes_on = climbs;
    finding.least = climbed->frames;
    while (goes_on && !sure) {
        ask_number(thread, &called, climbed, walked, &finding);
        sure = !walked || finding.decoded;
        goes_on = sure || encode_climb_on(thread, &called, climbed, climbed->frames + 1);
    }
    encode_climb_down(thread, climbed);
    if (sure || !climbs)
        return finding;
    called = *start;
    encode_climb(thread, &called, climbed, 0);
    ask_number(thread, &called, climbed, walked, &finding);
    encode_climb_down(thread, climbed);
    return finding;
}

static uint8_t *hint_of(struct encode_thread *thread, place_t function)
{
    return &thread->hint[lookup_hash(function, 0) % ENCODE_HINTS];
}

// A context that is new, or is to be verified.
static ref_t confirm(struct encode_thread *thread, struct walker *walker, void *ucontext,
                     const struct unwind_cursor *start, struct encode_climbed *climbed,
                     const struct confirmed *hit, uint64_t weight)
{
    struct unwind_cursor cursor = *start;
    encode_climb_down(thread, climbed);
    const bool walked = encode_walk(thread, &cursor);
    const struct finding finding = ask_numbers(thread, start, climbed, walked);
    const bool decoded = finding.decoded, same = finding.same;
    const bool bounded = walker->kind.weighs_edges;
    if (same && (bounded || tree_forgets(walker->arena, walker->tree)) &&
        !(thread->obstacles & OBSTACLE_SIGNAL))
        encode_walk_above(thread, walker, start);
    ref_t node = bounded && same ? encode_insert_bounded(thread, walker, climbed, weight) : 0;
    if (!node)
        node = walk_sample(walker, ucontext, weight);
    if (decoded)
        encode_observe(thread);
    if (walked && encode_is_comparable(thread)) {
        if (same)
            encode_count_depths(thread->count, thread->state->context.depth);
        encode_count(&encode.counts->verified, decoded);
        encode_count(&encode.counts->mismatches, decoded && !same);
    }
    if (!same) {
        encode_count(&encode.counts->walked, 1);
        encode_count(&encode.counts->undecoded, !decoded);
        if (hit)
            thread->confirmed.one[hit - thread->confirmed.one].node = 0;
        if (walked)
            recompute_state(thread);
        return node;
    }
    if (!hit)
        encode_count(&encode.counts->confirmed, 1);
    else
        encode_count(&encode.counts->decoded, 1);
    struct node *statement = arena_at(walker->arena, node);
    const ref_t frame = bounded ? node : ancestor(walker, statement->parent, climbed->count);
    const bool further = climbed->frames > finding.least, root = thread->count == climbed->frames;
    count_decoded(climbed, further || climbed->outside);
    *hint_of(thread, start->frame.function) = further ? (uint8_t)climbed->frames : 0;
    if (tree_node_edge(statement) && frame)
        confirmed_put(&thread->confirmed,
                      &(struct confirmed){
                          .key = finding.key,
                          .at = confirmed_frame(finding.function),
                          .caller = root ? 0 : thread->frames[climbed->frames].site,
                          .slot = !further && !climbed->outside ? 0
                                  : root                        ? thread->root_slot
                                         : thread->frames[climbed->frames].slot,
                          .stamp = thread->state->stamp,
                          .tree = walker->tree,
                          .node = frame,
                      });
    return node;
}

static ref_t take_sample(struct encode_thread *thread, struct walker *walker, void *ucontext,
                         uint64_t weight)
{
    struct unwind_cursor cursor;
    struct context_state *context = &thread->state->context;
    const uintptr_t pc = *(uintptr_t *)((char *)ucontext + arch_context_offset(ARCH_RA));
    const uintptr_t sp = *(uintptr_t *)((char *)ucontext + arch_context_offset(ARCH_SP));
    const bool own = sp >= thread->stack.low && sp < thread->stack.high;
    const uintptr_t high = thread->stack.high;
    const struct unwind_bounds stack = {own ? stack_mapped_from(sp, high) : high, high};
    struct live_encode *counts = encode.counts;
    unwind_start(&cursor, ucontext, stack);
    if (thread->jumping && own && !thread->busy && !is_ours(thread, &cursor, pc))
        thread->jumping = !has_landed(thread, cursor);
    if (is_outside(thread, &cursor, pc)) {
        const bool ours = is_ours(thread, &cursor, pc);
        const bool wrong = thread->state->validity != STATE_VALID || encode_is_behind(thread);
        if ((wrong || !thread->root_slot) && own && !thread->busy && !thread->jumping && !ours &&
            encode_walk(thread, &cursor))
            recompute_state(thread);
        else if (!thread->busy && (ours || encode_is_below_jump(thread->state, cursor.sp)))
            encode_observe_unencoded();
        encode_count(ours ? &counts->in_hooks : &counts->outside, 1);
        return fall_back(walker, ucontext, weight);
    }
    struct unwind_cursor called = cursor;
    struct encode_climbed climbed;
    bool climbs = encode_climb(thread, &called, &climbed, *hint_of(thread, cursor.frame.function));
    if (!climbs) {
        encode_climb_down(thread, &climbed);
        called = cursor;
        climbs = encode_climb(thread, &called, &climbed, 0);
    }
    if (!climbs) {
        encode_climb_down(thread, &climbed);
        encode_count(&counts->undecoded, 1);
        // The state may be wrong, or the stack one of deep recursion.
        if (++thread->ticks % 16 == 0 && encode_walk(thread, &cursor))
            recompute_state(thread);
        return fall_back(walker, ucontext, weight);
    }
    encode_count(&counts->depth_sum, context->depth);
    encode_count(&counts->depth_samples, 1);
    const place_t function = called.frame.function;
    const uint64_t at = confirmed_frame(function), key = context_key(context, at);
    const struct confirmed *known = confirmed_find(&thread->confirmed, key, at);
    const bool hit = known && known->node && known->tree == walker->tree &&
                     known->stamp == thread->state->stamp &&
                     encode_is_called_from(thread, &called, known);
    const bool forgets = tree_forgets(walker->arena, walker->tree);
    // Now and then, and always to verify, one that is known is looked at all the same.
    if (!hit || (forgets && thread->above_tree != walker->tree) || encode.verify ||
        ++thread->ticks % 16 == 0)
        return confirm(thread, walker, ucontext, &cursor, &climbed, hit ? known : NULL, weight);
    ref_t frame = known->node;
    if (walker->kind.weighs_edges) {
        const bool decoded = encode_decode_state(thread, function);
        encode_climb_down(thread, &climbed);
        frame = decoded ? encode_insert_bounded(thread, walker, &climbed, weight) : 0;
        encode_count(&counts->decoded, frame != 0);
        if (frame)
            count_decoded(&climbed, known->slot != 0);
        return frame ? frame : fall_back(walker, ucontext, weight);
    }
    if (forgets)
        frame = encode_decode_state(thread, function) ? encode_insert_path(thread, walker) : 0;
    encode_climb_down(thread, &climbed);
    frame = encode_insert_climbed(&climbed, walker, frame);
    if (!frame)
        return fall_back(walker, ucontext, weight);
    encode_count(&counts->decoded, 1);
    count_decoded(&climbed, known->slot != 0);
    walker->stats->verdicts[VERDICT_COMPLETE]++;
    return walker->kind.keeps_all ? node_of_statement(walker, frame, cursor.frame.place) : frame;
}

ref_t encode_sample(struct encode_thread *thread, struct walker *walker, void *ucontext,
                    uint64_t weight)
{
    const uintptr_t pc = *(uintptr_t *)((char *)ucontext + arch_context_offset(ARCH_RA));
    struct encode_saved_state kept;
    struct stub_place place;
    encode_save_state(thread, &kept);
    thread->in_stub = !thread->busy && sites_locate(pc, &place) && undo_stub(thread, &place);
    const ref_t node = take_sample(thread, walker, ucontext, weight);
    if (thread->in_stub)
        encode_restore_state(thread, &kept);
    thread->in_stub = false;
    return node;
}

struct sample_call {
    struct encode_thread *thread;
    struct walker *walker;
    void *ucontext;
    uint64_t weight;
    ref_t node;
};

static void sample_aside(void *argument)
{
    struct sample_call *call = argument;
    call->node = encode_sample(call->thread, call->walker, call->ucontext, call->weight);
}

ref_t encode_sample_aside(struct encode_thread *thread, struct walker *walker, void *ucontext,
                          uint64_t weight)
{
    struct sample_call call = {thread, walker, ucontext, weight, 0};
    encode_call_on(thread->aside + sizeof thread->aside, sample_aside, &call);
    return call.node;
}
