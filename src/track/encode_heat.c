// SPDX-License-Identifier: MIT
// How hot edges are, by the pushes that they take: one in some hundred is looked at, and stands for
// the others. Edges that could have a number by now, but push, are what a new encoding would save.

#include "track/encode_parts.h"

enum {
    LOOK_LEAST = 128, // pushes between two that are looked at: a number that changes, so that no
    LOOK_MASK = 127,  // loop keeps in step with it
    PUSH_NS = 5,
};

// Whether an edge pushes only because it is newer than the encoding that the thread is on.
static bool could_be_encoded(const struct encode_state *state, uint32_t edge)
{
    return edge >= state->thread->epoch->dictionary->edges &&
           !(graph_edge(&encode.graph, edge)->flags & (EDGE_UNENCODED | EDGE_LOOPS));
}

void encode_count_push(struct encode_state *state, uint32_t edge)
{
    const uint32_t pushes = state->countdown_from;
    struct policy_counters *counters = &encode.policy_counters;
    // Any sequence will do.
    state->lot = state->lot * 1103515245 + 12345;
    state->countdown_from = LOOK_LEAST + (state->lot >> 16 & LOOK_MASK);
    state->countdown = (int32_t)state->countdown_from;
    state->pushes += pushes;
    graph_edge(&encode.graph, edge)->heat += pushes;
    if (!could_be_encoded(state, edge))
        return;
    counters->wasted += (uint64_t)pushes * PUSH_NS;
    if (counters->wasted < policy_worth(&encode.policy, counters, encode.graph.edge_count))
        return;
    atomic_store_explicit(&encode.wanted, REENCODE_STACK, memory_order_relaxed);
    encode_notice(state);
}
