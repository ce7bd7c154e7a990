// SPDX-License-Identifier: MIT
#include "encode/numbering.h"
#include "encode/acyclic.h"
#include <errno.h>

static struct code *code_at(struct numbering *numbering, uint32_t edge)
{
    return series_at(&numbering->codes, edge);
}

static bool reach(struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    return graph->edge_count == 0 ||
           series_reach(&numbering->codes, graph->pool, graph->edge_count - 1);
}

// What is pushed begins a part of the path, with the first id of the function called.
static void begin_part(struct numbering *numbering, uint32_t edge)
{
    struct code *code = code_at(numbering, edge);
    if (code->action != ACTION_ADD)
        code->add =
            dictionary_own(numbering->dictionary, graph_edge(numbering->graph, edge)->callee);
}

static void write_codes(struct numbering *numbering, const bool *taken)
{
    const struct graph *graph = numbering->graph;
    const struct dictionary *dictionary = numbering->dictionary;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        if (edge_is_silent(edge))
            code_at(numbering, i)->action = ACTION_ADD;
        else if (!taken[i] && !(edge->flags & EDGE_UNENCODED))
            code_at(numbering, i)->action = ACTION_REPEAT;
        numbering->back += code_at(numbering, i)->action == ACTION_REPEAT;
        numbering->cut += taken[i]; // those that were not cut are taken off below
    }
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        for (uint32_t i = into->first; i < into->first + into->count; i++) {
            const struct dictionary_step *step = &dictionary->step[i];
            if (step->edge == GRAPH_NONE)
                continue;
            *code_at(numbering, step->edge) =
                (struct code){.add = step->start, .action = ACTION_ADD};
            numbering->encoded++;
            numbering->zero += step->start == 0;
            numbering->cut--;
        }
    }
    numbering->covered = graph->edge_count;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        begin_part(numbering, i);
}

// What a numbering needs while it is made.
struct scratch {
    uint32_t *sorted; // edges from hot to cold; at last by callee, in the order of their numbers
    uint32_t *first;  // by function
    uint32_t *other;
    bool *taken;      // by edge
    bool *reserved;   // by function
    bool *has_no_own; // by function
    struct silent_edges silent;
    void *memory;
    size_t bytes;
};

static bool scratch_init(struct scratch *scratch, const struct graph *graph)
{
    size_t functions = graph->function_count, edges = graph->edge_count;
    scratch->bytes = (edges * 2 + functions + 2) * sizeof(uint32_t) + edges + 2 * functions;
    scratch->memory = pool_map(graph->pool, scratch->bytes);
    scratch->sorted = scratch->memory;
    if (!scratch->memory)
        return false;
    scratch->other = scratch->sorted + edges;
    scratch->first = scratch->other + edges;
    scratch->taken = (bool *)(scratch->first + functions + 2);
    scratch->reserved = scratch->taken + edges;
    scratch->has_no_own = scratch->reserved + functions;
    return true;
}

static bool is_candidate(const struct graph_edge *edge)
{
    return !edge_is_silent(edge) && !(edge->flags & EDGE_UNENCODED);
}

// A root begins with 0: where it leads to silently that must be its own.
static void reserve_roots(const struct graph *graph, struct scratch *scratch)
{
    for (uint32_t f = 0; f < graph->function_count && scratch->silent.same; f++) {
        if (!graph_function(graph, f)->root)
            continue;
        const uint32_t reached = silent_reach(&scratch->silent, f);
        scratch->reserved[f] = scratch->reserved[f] || reached > 0;
        for (uint32_t i = 0; i < reached; i++)
            scratch->reserved[scratch->silent.list[i]] = true;
    }
}

static int choose_edges(const struct graph *graph, struct scratch *scratch, uint32_t *count)
{
    struct acyclic acyclic;
    int status = acyclic_init(&acyclic, graph, &scratch->silent);
    for (uint32_t i = 0; status == 0 && i < graph->edge_count; i++) {
        if (is_candidate(graph_edge(graph, i)))
            scratch->sorted[(*count)++] = i;
    }
    sort_by_heat(graph, scratch->sorted, *count, scratch->other);
    for (uint32_t i = 0; i < *count; i++)
        scratch->taken[scratch->sorted[i]] = acyclic_take(&acyclic, scratch->sorted[i]);
    reserve_roots(graph, scratch);
    acyclic_free(&acyclic);
    return status;
}

// Lays the edges that were taken by callee, each list still from hot to cold.
static void list_by_callee(const struct graph *graph, struct scratch *scratch, uint32_t count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scratch->taken[scratch->sorted[i]])
            scratch->first[graph_edge(graph, scratch->sorted[i])->callee + 1]++;
    }
    for (uint32_t f = 0; f <= graph->function_count; f++)
        sum = scratch->first[f] += sum;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t edge = scratch->sorted[i];
        if (scratch->taken[edge])
            scratch->other[scratch->first[graph_edge(graph, edge)->callee]++] = edge;
    }
    // Each list moved its begin to its end, which is where the next one begins.
    for (uint32_t f = graph->function_count; f > 0; f--)
        scratch->first[f] = scratch->first[f - 1];
    scratch->first[0] = 0;
}

// What the edges of a dictionary are worth: what is missing is pushed each time. Even an edge that
// no sample has met runs now and then.
static uint64_t worth(const struct graph *graph, const struct dictionary *dictionary)
{
    uint64_t sum = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        for (uint32_t i = into->first; i < into->first + into->count; i++)
            if (dictionary->step[i].edge != GRAPH_NONE)
                sum += 16 * graph_edge(graph, dictionary->step[i].edge)->heat + 1;
    }
    return sum;
}

// The lists of the edges that have a number.
static void keep_lists(const struct dictionary *dictionary, struct scratch *scratch)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        scratch->first[f] = count;
        for (uint32_t i = into->first; i < into->first + into->count; i++)
            if (dictionary->step[i].edge != GRAPH_NONE)
                scratch->other[count++] = dictionary->step[i].edge;
    }
    scratch->first[dictionary->functions] = count;
    for (uint32_t f = 0; f < dictionary->functions; f++)
        scratch->has_no_own[f] = dictionary->function[f].has_no_own;
}

// Where functions have no ids of their own, whoever leads on from them comes with the id 0.
static void reserve_targets(const struct dictionary *dictionary, struct scratch *scratch)
{
    const struct silent_edges *silent = &scratch->silent;
    for (uint32_t i = 0; i < silent->first[dictionary->functions]; i++)
        scratch->reserved[silent->to[i]] = true;
}

// Builds it again until it follows from its lists alone, as for whoever reads them.
static int settle(const struct graph *graph, struct dictionary_plan *plan, struct scratch *scratch,
                  struct dictionary **result)
{
    plan->cold = 0;
    while ((*result)->overflows || (*result)->left_out || (*result)->homeless) {
        keep_lists(*result, scratch);
        if ((*result)->homeless)
            reserve_targets(*result, scratch);
        dictionary_free(graph, *result);
        *result = NULL;
        int status = dictionary_build(graph, plan, result);
        if (status < 0)
            return status;
    }
    return 0;
}

// Where ids overflow, the function at which they do is only the last straw. Leaving out cold edges
// everywhere may keep more of the hot ones: tried with more and more heat, the best is taken.
static int build(const struct graph *graph, struct dictionary_plan *plan,
                 struct dictionary **result)
{
    int status = dictionary_build(graph, plan, result);
    if (status < 0)
        return status;
    bool overflows = (*result)->overflows > 0;
    for (plan->cold = 1; overflows && plan->cold < UINT64_C(1) << 62; plan->cold *= 2) {
        struct dictionary *other;
        for (uint32_t f = 0; f < plan->functions; f++)
            plan->has_no_own[f] = false;
        if (dictionary_build(graph, plan, &other) < 0)
            break; // what there is will do
        overflows = other->overflows > 0;
        bool better = worth(graph, other) > worth(graph, *result);
        dictionary_free(graph, better ? *result : other);
        if (better)
            *result = other;
        else if (plan->cold > 1)
            break;
    }
    return 0;
}

static void numbering_init(struct numbering *numbering, const struct graph *graph,
                           const struct numbering_options *options)
{
    *numbering = (struct numbering){.graph = graph, .options = *options};
    numbering->codes.size = sizeof(struct code);
}

int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options)
{
    numbering_init(numbering, graph, options);
    struct scratch scratch = {.silent = {.graph = graph}};
    uint32_t count = 0;
    if (!scratch_init(&scratch, graph))
        return -ENOMEM;
    int status = reach(numbering) ? 0 : -ENOMEM;
    if (status == 0)
        status = silent_init(&scratch.silent, graph, graph->function_count, graph->edge_count);
    if (status == 0)
        status = choose_edges(graph, &scratch, &count);
    if (status == 0) {
        list_by_callee(graph, &scratch, count);
        struct dictionary_plan plan = {.stamp = options->stamp,
                                       .functions = graph->function_count,
                                       .edges_known = graph->edge_count,
                                       .first = scratch.first,
                                       .edges = scratch.other,
                                       .reserved = scratch.reserved,
                                       .has_no_own = scratch.has_no_own,
                                       .silent = &scratch.silent,
                                       .id_bits = options->id_bits,
                                       .overflow = OVERFLOW_CUTS};
        status = build(graph, &plan, &numbering->dictionary);
        if (status == 0)
            status = settle(graph, &plan, &scratch, &numbering->dictionary);
    }
    if (status == 0)
        write_codes(numbering, scratch.taken);
    silent_free(&scratch.silent);
    pool_unmap(graph->pool, scratch.memory, scratch.bytes);
    if (status < 0)
        numbering_free(numbering);
    return status;
}

int numbering_start(struct numbering *numbering, const struct graph *graph,
                    const struct numbering_options *options)
{
    numbering_init(numbering, graph, options);
    uint32_t first = 0;
    struct silent_edges silent = {.graph = graph};
    struct dictionary_plan plan = {
        .stamp = options->stamp, .first = &first, .id_bits = options->id_bits, .silent = &silent};
    int status = dictionary_build(graph, &plan, &numbering->dictionary);
    return status < 0 ? status : numbering_cover(numbering);
}

int numbering_cover(struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    if (!reach(numbering))
        return -ENOMEM;
    for (uint32_t i = numbering->covered; i < graph->edge_count; i++) {
        if (edge_is_silent(graph_edge(graph, i)))
            code_at(numbering, i)->action = ACTION_ADD;
        begin_part(numbering, i);
    }
    numbering->covered = graph->edge_count;
    return 0;
}

void numbering_free(struct numbering *numbering)
{
    series_free(&numbering->codes, numbering->graph->pool);
}
