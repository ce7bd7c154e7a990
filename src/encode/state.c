// SPDX-License-Identifier: MIT
#include "encode/state.h"
#include <stdatomic.h>

static void push(struct context_state *state, int64_t word, uint64_t first)
{
    const uint32_t edge = (uint32_t)word;
    const uint32_t depth = __atomic_load_n(&state->depth, __ATOMIC_RELAXED);
    struct cc_entry *top = state->stack + depth;
    if (state->over || depth >= state->limit) {
        state->over++;
        return;
    }
    if ((word & WORD_REPEATS) && depth && top[-1].id == state->id && top[-1].edge == edge) {
        top[-1].count++;
    } else {
        const uint64_t id = state->id;
        // The depth first: a signal's handler would push over the entry.
        __atomic_store_n(&state->depth, depth + 1, __ATOMIC_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
        *top = (struct cc_entry){id, edge, 0};
    }
    atomic_signal_fence(memory_order_seq_cst);
    state->id = first;
}

void context_call(struct context_state *state, int64_t word, uint64_t first)
{
    if (word < 0)
        push(state, word, first);
    else
        state->id += (uint64_t)word;
}

void context_return(struct context_state *state, int64_t word)
{
    // Read once, and stored: a handler that jumps may leave another depth, and below 0 there is no
    // stack.
    const uint32_t depth = __atomic_load_n(&state->depth, __ATOMIC_RELAXED);
    if (word >= 0) {
        state->id -= (uint64_t)word;
    } else if (state->over) {
        state->over--;
    } else if (depth) {
        struct cc_entry *top = state->stack + depth - 1;
        const uint64_t id = top->id;
        if (top->count)
            top->count--;
        else
            __atomic_store_n(&state->depth, depth - 1, __ATOMIC_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
        state->id = id;
    }
}

void context_reset(struct context_state *state, uint64_t first)
{
    state->id = first;
    state->depth = state->over = 0;
}
