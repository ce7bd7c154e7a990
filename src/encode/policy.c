// SPDX-License-Identifier: MIT
#include "encode/policy.h"

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
                  const uint32_t *path, uint32_t count, uint32_t shared, uint64_t weight,
                  struct observed *observed)
{
    observed->samples++;
    for (uint32_t i = shared; i < count; i++) {
        struct graph_edge *edge = graph_edge(graph, path[i]);
        edge->heat += weight;
        observed->taken++;
        if (path[i] >= numbering->covered)
            continue;
        const struct code *code = numbering_code(numbering, path[i]);
        bool is_new = path[i] >= numbering->dictionary->edges;
        bool never = edge->flags & EDGE_UNENCODED;
        if (code->action != ACTION_ADD) {
            observed->unencoded += is_new && !never;
            observed->repeated += !is_new && !never;
        } else if (code->add != 0) {
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

uint64_t policy_worth(const struct policy *policy, const struct policy_counters *counters,
                      uint32_t edges)
{
    const uint64_t known = counters->edges_encoded ? counters->edges_encoded : 1;
    const uint64_t cost = counters->last_cost * (edges > known ? edges : known) / known;
    return cost > policy->least_cost ? cost : policy->least_cost;
}

enum reencode policy_decide(const struct policy *policy, const struct policy_counters *counters)
{
    if (counters->wasted >= policy_worth(policy, counters, counters->edges))
        return REENCODE_STACK;
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

void policy_encoded(struct policy *policy, enum reencode reason,
                    const struct policy_counters *counters)
{
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
