// SPDX-License-Identifier: MIT
// What the state of a thread says of its context, and what that says of the edges.

#include "track/encode/contexts/decode_state.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"

bool encode_decode_state(struct encode_thread *thread, place_t place)
{
    uint32_t function = graph_find_function(&encode.graph, place);
    if (function == GRAPH_NONE)
        return false;
    struct encoded_context context = encoded_context_of(&thread->state->context, function);
    context.open = thread->epoch->open;
    context.open_count = thread->epoch->open_count;
    int64_t count = context_decode(&encode.graph, thread->epoch->dictionary, &context, thread->path,
                                   ENCODE_FRAMES);
    if (count < 0)
        return false;
    thread->path_count = (uint32_t)count;
    // Silent edges may have led here in several ways, of which one is decoded; and if not all of
    // them are known, by another one.
    for (uint32_t i = ENCODE_FRAMES - thread->path_count; i < ENCODE_FRAMES; i++) {
        const struct graph_edge *edge = graph_edge(&encode.graph, thread->path[i]);
        if (edge->kind == EDGE_SILENT_CALL || encode_is_reached_unseen(edge->callee) ||
            (edge->kind == EDGE_SILENT_JUMP && encode_is_open(edge->caller)))
            return false;
    }
    // Last: what was asked of functions holds for the encoding in force, and nobody has looked at
    // one of them meanwhile.
    atomic_thread_fence(memory_order_acquire);
    return !atomic_load_explicit(&encode.invalidated, memory_order_acquire) &&
           !encode_is_behind(thread) && thread->state->validity == STATE_VALID;
}

// Now and then: whether the next hook shall encode anew. reencode_policy_decide() weighs the cost of that.
static void decide(void)
{
    struct policy_counters counters = encode.policy_counters;
    if (counters.observed.samples % 32 != 0 && !encode.reencode_always)
        return;
    counters.edges = encode.graph.edge_count;
    counters.nanoseconds = UINT64_MAX;
    const enum reencode reason =
        encode.reencode_always ? REENCODE_EDGES : reencode_policy_decide(&encode.policy, &counters);
    atomic_store_explicit(&encode.wanted, reason, memory_order_relaxed);
    if (reason != REENCODE_NOT)
        encode_take_slow_path(&encode_state);
}

void encode_observe(struct encode_thread *thread)
{
    const uint32_t *path = thread->path + ENCODE_FRAMES - thread->path_count;
    uint32_t shared = paths_share(path, thread->path_count, thread->before, thread->before_count);
    if (!encode_try_lock())
        return;
    observe_path(&encode.graph, &encode.numbering, path + shared, thread->path_count - shared,
                 &encode.policy_counters.observed);
    for (uint32_t i = shared; i < thread->path_count; i++)
        thread->before[i] = path[i];
    thread->before_count = thread->path_count;
    decide();
    encode_release_lock();
}

void encode_observe_unencoded(void)
{
    struct observed *observed = &encode.policy_counters.observed;
    if (!encode_try_lock())
        return;
    observed->samples++;
    observed->taken++;
    if (encode.graph.edge_count > encode.policy_counters.edges_encoded)
        observed->unencoded++;
    else
        observed->repeated++;
    decide();
    encode_release_lock();
}

bool encode_compare(struct encode_thread *thread, uint32_t skipped)
{
    const uint32_t *path = thread->path + ENCODE_FRAMES - thread->path_count;
    const uint32_t count = path_to_walk(&encode.graph, path, thread->path_count, thread->walked);
    if (count + skipped != thread->count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct walked *one = &thread->walked[i];
        const struct encode_frame *other = &thread->frames[thread->count - 1 - i];
        if (one->site != other->site || one->function != other->function)
            return false;
    }
    return true;
}

// Counts what it finds if the number was not computed from the walk just now.
static bool says_the_same(struct encode_thread *thread, place_t function, bool counts)
{
    const bool decoded = encode_decode_state(thread, function);
    const bool same = decoded && encode_compare(thread, 0);
    if (counts) {
        const bool judged = decoded && encode_is_comparable(thread);
        encode_count(&encode.counts->verified, judged);
        encode_count(&encode.counts->mismatches, judged && !same);
        encode_count(&encode.counts->undecoded, !decoded);
    }
    return same;
}

bool encode_confirm(struct encode_thread *thread, struct unwind_cursor *cursor,
                    enum confirm_how how)
{
    const place_t function = cursor->frame.function;
    const uintptr_t sp = cursor->sp;
    bool same = false;
    if (!encode_walk(thread, cursor) ||
        thread->obstacles & (OBSTACLE_SIGNAL | OBSTACLE_GAP | OBSTACLE_UNWINDER))
        return false;
    if (thread->jumping)
        thread->jumping = !encode_has_landed(thread);
    thread->busy = false; // we are, and nobody else
    if (how == CONFIRM_OR_MEND &&
        (thread->state->validity != STATE_VALID || encode_is_behind(thread)))
        encode_resync(thread, 0);
    if (encode_is_sound(thread, sp) && encode_pushes_match(thread))
        same = says_the_same(thread, function, true);
    if (!same && how == CONFIRM_OR_MEND) {
        encode_resync(thread, 0);
        same = encode_is_sound(thread, sp) && says_the_same(thread, function, false);
    }
    thread->busy = true;
    return same;
}
