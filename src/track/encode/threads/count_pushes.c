// SPDX-License-Identifier: MIT
// How hot edges are, by the pushes that they take: one in some hundred is looked at, and stands for
// the others. Edges that could have a number by now, but push, are what a new encoding would save.

#include "track/encode/threads/count_pushes.h"
#include "base/system/kernel.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/walk/seen_unwinders.h"
#include <time.h>

enum {
    LOOK_LEAST = 128, // pushes between two that are looked at: a number that changes, so that no
    LOOK_MASK = 127,  // loop keeps in step with it
    PUSH_NS = 10,     // and its pop, in a program that has other things in the caches
    // Of waste, between two looks at the clock: a push that is looked at stands for more.
    CLOCK_EACH_NS = LOOK_LEAST * PUSH_NS,
};

// The counter of the reason why an edge pushes.
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

// Whether an edge was left out as cold, and is hotter by now than others that were kept.
static bool is_hot_again(const struct encode_state *state, uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    const uint64_t cold = encode.numbering.cold;
    return cold && one->heat / 2 > cold && edge < state->thread->epoch->dictionary->edges &&
           !(one->flags & EDGE_UNENCODED);
}

// Whether another encoding would save the pushes of an edge: it is newer than the one that the
// thread is on; its site leads to the hook since a library was unloaded; or it has become hot.
static bool could_be_saved(const struct encode_state *state, uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    if (one->flags & EDGE_ARMLESS || encode_repeats(state->thread, edge))
        return false;
    const bool has_word = encode_may_number(edge) || encode_leads_outside(edge);
    if (edge >= state->thread->epoch->dictionary->edges)
        return has_word;
    return (one->kind == EDGE_INDIRECT && encode_word(state->thread, edge) >= 0) ||
           is_hot_again(state, edge);
}

// The next hook goes its slow path, which also takes the thread to the encoding in force.
static void ask_for_encoding(struct encode_state *state, enum reencode reason)
{
    atomic_store_explicit(&encode.wanted, reason, memory_order_relaxed);
    encode_take_slow_path(state);
}

// By a plain system call: hooks call no code that may touch vector registers.
static uint64_t hook_clock_ns(void)
{
    struct timespec now = {0};
    kernel_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void encode_count_waste(struct encode_state *state, uint64_t nanoseconds)
{
    const uint64_t before = encode.policy_counters.wasted;
    encode_count(&encode.policy_counters.wasted, nanoseconds);
    struct policy_counters counters = encode.policy_counters;
    if (before / CLOCK_EACH_NS == counters.wasted / CLOCK_EACH_NS)
        return;
    counters.edges = graph_edges(&encode.graph);
    counters.nanoseconds = hook_clock_ns() - encode.encoded_at;
    if (reencode_policy_is_wasteful(&encode.policy, &counters))
        ask_for_encoding(state, REENCODE_WASTE);
}

void encode_count_push(struct encode_state *state, uint32_t edge)
{
    const uint32_t pushes = state->countdown_from;
    // Any sequence will do.
    state->random = state->random * 1103515245 + 12345;
    state->countdown_from = LOOK_LEAST + (state->random >> 16 & LOOK_MASK);
    state->countdown = (int32_t)state->countdown_from;
    encode_count(&encode.counts->pushes, pushes);
    encode_count(reason_of(state->thread, edge), pushes);
    graph_edge(&encode.graph, edge)->heat += pushes;
    if (!encode.stopped && program_unwinder_has_memory())
        ask_for_encoding(state, REENCODE_STACK);
    if (encode_is_behind(state->thread))
        ask_for_encoding(state,
                         REENCODE_WASTE); // there is an encoding, which may be all that it takes
    else if (could_be_saved(state, edge))
        encode_count_waste(state, (uint64_t)pushes * PUSH_NS);
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
