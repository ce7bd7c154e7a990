// SPDX-License-Identifier: MIT
// What the state of a thread says of its context, and what that says of the edges.

#include "track/encode/contexts/decode_state.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"

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
    // What changes nothing may have led here in several ways, of which one is told; and if not all
    // of them are known, by another one.
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
           !encode_is_behind(thread) && !thread->state->doubt;
}

// Now and then: whether the next hook shall encode anew. What that costs is weighed there.
static void decide(void)
{
    struct policy_counters counters = encode.policy_counters;
    if (counters.observed.samples % 32 != 0 && !encode.restless)
        return;
    counters.edges = encode.graph.edge_count;
    counters.nanoseconds = UINT64_MAX;
    const enum reencode reason =
        encode.restless ? REENCODE_EDGES : policy_decide(&encode.policy, &counters);
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
    observe_path(&encode.graph, &encode.numbering, path, thread->path_count, shared, 1,
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
