// SPDX-License-Identifier: MIT
#include "track/encode/threads/reencode.h"
#include "base/now.h"
#include "patch/transaction.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/count_pushes.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/exceptions.h"
#include "track/encode/threads/state_from_stack.h"

#define COOL_NS UINT64_C(1000000000)
// For tests: any order will do, and each makes other sites run their original code.
static void shuffle_heat(void)
{
    static uint64_t random = 88172645463325252;
    for (uint32_t i = 0; i < encode.graph.edge_count; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        graph_edge(&encode.graph, i)->heat = random >> 48;
    }
}

static bool renumber(struct encode_thread *thread)
{
    struct numbering_options options = encode.numbering.options;
    struct numbering next;
    options.stamp++;
    if (encode.reencode_always)
        shuffle_heat();
    encode_choose_edges();
    if (numbering_make(&next, &encode.graph, &options))
        return false;
    if (encode_lead_sites(&next, ENCODE_BEFORE) || !encode_publish(&next)) {
        dictionary_free(&encode.graph, next.dictionary);
        numbering_free(&next);
        return false;
    }
    encode_lead_sites(&encode.numbering, ENCODE_AFTER);
    encode_move_returns(thread);
    encode_join(thread);
    encode_compute_state(thread, 0);
    return true;
}

// The past counts less. But edges that have a number are not seen any more, however hot:
// several encodings in a short time must not make them cold.
static void cool(uint64_t now)
{
    if (now - encode.cooled_at < COOL_NS)
        return;
    encode.cooled_at = now;
    graph_cool(&encode.graph);
}

// The thread's return addresses must stay where they are: it need not walk its stack again at once.
static void try_later(struct policy_counters *counters)
{
    counters->wasted /= 2;
    encode.encoded_at += (now_ns(CLOCK_MONOTONIC) - encode.encoded_at) / 2;
}

void encode_renumber(struct encode_thread *thread, enum reencode reason)
{
    const uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    struct policy_counters *counters = &encode.policy_counters;
    if (!encode_may_move(thread)) {
        try_later(counters);
        return;
    }
    bool made = false;
    if (!patch_begin()) {
        made = renumber(thread);
        patch_end();
    }
    if (!made) { // as long a time until it is tried again
        counters->wasted = 0;
        encode.encoded_at = now_ns(CLOCK_MONOTONIC);
        return;
    }
    reencode_policy_encoded(&encode.policy, reason, counters);
    const uint64_t now = now_ns(CLOCK_MONOTONIC), cost = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    cool(now);
    *counters =
        (struct policy_counters){.edges_encoded = encode.graph.edge_count, .last_cost = cost};
    encode.encoded_at = now;
    encode.counts->reencodings++;
    encode.counts->reencode_ns += cost;
    encode_count_progress();
    thread->before_count = 0;
}

#define ALWAYS_NS 1000000

enum reencode encode_decide(void)
{
    struct policy_counters *counters = &encode.policy_counters;
    if (encode.stopped)
        return REENCODE_NOT;
    counters->edges = encode.graph.edge_count;
    counters->nanoseconds = UINT64_MAX;
    // The clock is a system call: only where it matters.
    const bool unsettled = atomic_load_explicit(&encode.invalidated, memory_order_relaxed);
    if (!encode.reencode_always && !unsettled &&
        reencode_policy_decide(&encode.policy, counters) == REENCODE_NOT)
        return REENCODE_NOT;
    counters->nanoseconds = now_ns(CLOCK_MONOTONIC) - encode.encoded_at;
    if ((encode.reencode_always || unsettled) &&
        counters->nanoseconds > ALWAYS_NS + 3 * counters->last_cost)
        return REENCODE_EDGES;
    if (encode.reencode_always)
        return REENCODE_NOT;
    return reencode_policy_decide(&encode.policy, counters);
}
