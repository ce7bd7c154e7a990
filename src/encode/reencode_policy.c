// SPDX-License-Identifier: MIT
#include "encode/reencode_policy.h"

enum { MOST_PATIENCE = 16 };

static uint64_t hottest_into(const struct graph *graph, const struct dictionary *dictionary,
                             uint32_t function)
{
    if (function >= dictionary->functions)
        return 0;
    const struct dictionary_function *into = &dictionary->function[function];
    // Numbers were given from hot to cold.
    for (uint32_t i = into->first; i < into->first + into->count; i++)
        if (dictionary->step[i].edge != GRAPH_NONE)
            return graph_edge(graph, dictionary->step[i].edge)->heat;
    return 0;
}

void observe_path(const struct graph *graph, const struct numbering *numbering,
                  const uint32_t *path, uint32_t count, struct observed *observed)
{
    observed->samples++;
    for (uint32_t i = 0; i < count; i++) {
        struct graph_edge *edge = graph_edge(graph, path[i]);
        edge->heat++;
        observed->taken++;
        const int64_t word = numbering_word(numbering, path[i]);
        bool is_new = path[i] >= numbering->dictionary->edges;
        bool never = edge->flags & EDGE_UNENCODED;
        if (word < 0) {
            observed->unencoded += is_new && !never;
            observed->repeated += !is_new && !never;
        } else if (word != 0) {
            observed->misplaced +=
                edge->heat > hottest_into(graph, numbering->dictionary, edge->callee);
        }
    }
}

uint32_t paths_share(const uint32_t *one, uint32_t one_count, const uint32_t *other,
                     uint32_t other_count)
{
    uint32_t most = one_count < other_count ? one_count : other_count, i = 0;
    while (i < most && one[i] == other[i])
        i++;
    return i;
}

void graph_cool(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->edge_count; i++)
        graph_edge(graph, i)->heat /= 2;
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
    return whole ? part * 100 / whole : 0;
}

static uint64_t share_of(enum reencode reason, const struct observed *observed)
{
    if (reason == REENCODE_HOT)
        return percent(observed->misplaced, observed->taken);
    if (reason == REENCODE_STACK)
        return percent(observed->unencoded + observed->repeated, observed->taken);
    return 0;
}

uint64_t reencode_policy_worth(const struct reencode_policy *policy,
                               const struct policy_counters *counters, uint32_t edges)
{
    const uint64_t known = counters->edges_encoded ? counters->edges_encoded : 1;
    const uint64_t cost = counters->last_cost * (edges > known ? edges : known) / known;
    return cost > policy->least_cost ? cost : policy->least_cost;
}

// Whether pushes have wasted little for what it costs to save them.
static bool is_trickle(const struct reencode_policy *policy, const struct policy_counters *counters)
{
    return counters->wasted <
           reencode_policy_worth(policy, counters, counters->edges) / policy->waste_parts;
}

bool reencode_policy_is_wasteful(const struct reencode_policy *policy,
                                 const struct policy_counters *counters)
{
    const uint64_t worth = reencode_policy_worth(policy, counters, counters->edges);
    uint64_t affordable = counters->nanoseconds / policy->cost_parts;
    if (is_trickle(policy, counters))
        affordable >>= policy->patience[REENCODE_WASTE];
    return counters->wasted >= worth || (counters->wasted > 0 && affordable >= worth);
}

enum reencode reencode_policy_decide(const struct reencode_policy *policy,
                                     const struct policy_counters *counters)
{
    if (reencode_policy_is_wasteful(policy, counters))
        return REENCODE_WASTE;
    // The first encodings come quickly: then there is little to do, and much to win.
    if (counters->last_cost > counters->nanoseconds / policy->cost_parts)
        return REENCODE_NOT;
    uint32_t fresh = counters->edges - counters->edges_encoded;
    if (fresh >= policy->least_edges && fresh >= counters->edges_encoded / policy->edge_parts)
        return REENCODE_EDGES;
    const struct observed *observed = &counters->observed;
    if (observed->samples < policy->least_samples)
        return REENCODE_NOT;
    // A few new edges may be all that a hot loop runs through.
    if (percent(observed->unencoded, observed->taken) >= policy->stack_percent)
        return REENCODE_STACK;
    static const enum reencode reasons[] = {REENCODE_STACK, REENCODE_HOT};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t limit = reasons[i] == REENCODE_HOT ? policy->hot_percent : policy->stack_percent;
        unsigned patience = policy->patience[reasons[i]];
        if (share_of(reasons[i], observed) >= limit &&
            observed->samples >> patience >= policy->least_samples)
            return reasons[i];
    }
    return REENCODE_NOT;
}

void reencode_policy_encoded(struct reencode_policy *policy, enum reencode reason,
                             const struct policy_counters *counters)
{
    if (reason == REENCODE_WASTE) {
        unsigned *patience = &policy->patience[reason];
        const unsigned longer = *patience < MOST_PATIENCE ? *patience + 1 : *patience;
        *patience = is_trickle(policy, counters) ? longer : 0;
        return;
    }
    uint32_t now = (uint32_t)share_of(reason, &counters->observed);
    // Twice in a row for the same reason, and no better: wait longer before the next.
    if (reason == policy->last && now * 4 >= policy->last_percent * 3) {
        if (policy->patience[reason] < MOST_PATIENCE)
            policy->patience[reason]++;
    } else {
        policy->patience[reason] = 0;
    }
    policy->last = reason;
    policy->last_percent = now;
}
