// SPDX-License-Identifier: MIT
// How hot edges are, by the pushes that they take: one in some hundred is looked at, and stands for
// the others. Edges that could have a number by now, but push, are what a new encoding would save.

#include "track/encode/threads/count_pushes.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/walk/program_unwinders.h"

enum {
    LOOK_LEAST = 128, // pushes between two that are looked at: a number that changes, so that no
    LOOK_MASK = 127,  // loop keeps in step with it
    PUSH_NS = 10,     // and its pop, in a program that has other things in the caches
};

// Why an edge pushes.
static uint64_t *reason_of(const struct encode_thread *thread, uint32_t edge)
{
    struct live_encode *counts = encode.counts;
    if (edge >= thread->epoch->dictionary->edges)
        return &counts->pushes_new;
    if (encode_repeats(thread, edge))
        return &counts->pushes_recursion;
    // It has a number, or could: but its site leads to the hook.
    if (encode_word(thread, edge) >= 0 || graph_edge(&encode.graph, edge)->flags & EDGE_UNENCODED)
        return &counts->pushes_armless;
    return &counts->pushes_overflow;
}

// Whether an edge pushes only because it is newer than the encoding that the thread is on.
static bool could_be_encoded(const struct encode_state *state, uint32_t edge)
{
    return edge >= state->thread->epoch->dictionary->edges &&
           (!(graph_edge(&encode.graph, edge)->flags & EDGE_UNENCODED) ||
            encode_leads_outside(edge));
}

void encode_count_waste(struct encode_state *state, uint64_t nanoseconds)
{
    struct policy_counters *counters = &encode.policy_counters;
    counters->wasted += nanoseconds;
    if (counters->wasted < policy_worth(&encode.policy, counters, encode.graph.edge_count))
        return;
    atomic_store_explicit(&encode.wanted, REENCODE_STACK, memory_order_relaxed);
    encode_take_slow_path(state);
}

void encode_count_push(struct encode_state *state, uint32_t edge)
{
    const uint32_t pushes = state->countdown_from;
    // Any sequence will do.
    state->lot = state->lot * 1103515245 + 12345;
    state->countdown_from = LOOK_LEAST + (state->lot >> 16 & LOOK_MASK);
    state->countdown = (int32_t)state->countdown_from;
    encode_count(&encode.counts->pushes, pushes);
    encode_count(reason_of(state->thread, edge), pushes);
    graph_edge(&encode.graph, edge)->heat += pushes;
    if (!encode.stopped && program_unwinder_has_memory()) {
        atomic_store_explicit(&encode.wanted, REENCODE_STACK, memory_order_relaxed);
        encode_take_slow_path(state);
    }
    // A target that has no arm might have one; whether that would be better is not known here.
    const bool armless = graph_edge(&encode.graph, edge)->kind == EDGE_INDIRECT &&
                         (encode_may_number(edge) || encode_leads_outside(edge));
    if (could_be_encoded(state, edge) || armless)
        encode_count_waste(state, (uint64_t)pushes * PUSH_NS / (armless ? 4 : 1));
}

static unsigned class_of(uint32_t depth)
{
    const unsigned class = depth ? 32 - (unsigned)__builtin_clz(depth) : 0;
    return class < LIVE_DEPTHS ? class : LIVE_DEPTHS - 1;
}

void encode_count_depths(uint32_t frames, uint32_t entries)
{
    struct live_encode *counts = encode.counts;
    encode_count(&counts->path_sum, frames);
    encode_count(&counts->path_samples, 1);
    encode_count(&counts->path_class[class_of(frames)], 1);
    encode_count(&counts->stack_class[class_of(entries)], 1);
}

void encode_count_progress(void)
{
    struct live_encode *counts = encode.counts;
    if (counts->progress_count == LIVE_PROGRESS) {
        counts->progress_count /= 2;
        counts->progress_every *= 2;
        for (unsigned i = 0; i < LIVE_PROGRESS / 2; i++)
            counts->progress[i] = counts->progress[2 * i];
    }
    if (!counts->progress_every)
        counts->progress_every = 1;
    if (counts->reencodings % counts->progress_every)
        return;
    counts->progress[counts->progress_count++] = (struct live_progress){
        .samples = counts->decoded + counts->confirmed + counts->walked,
        .functions = encode.graph.function_count,
        .edges = encode.graph.edge_count,
        .max_id = encode.numbering.dictionary->max_id,
    };
}
