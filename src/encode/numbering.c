// SPDX-License-Identifier: MIT
#include "encode/numbering.h"
#include "encode/graph/acyclic.h"
#include <errno.h>

static bool reach(struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    return graph->edge_count == 0 ||
           series_reach(&numbering->words, graph->pool, graph->edge_count - 1);
}

static void set_word(struct numbering *numbering, uint32_t edge, int64_t word)
{
    *(int64_t *)series_at(&numbering->words, edge) = word;
}

// Of an edge without a number.
static int64_t word_without(struct numbering *numbering, uint32_t index, bool taken)
{
    const struct graph_edge *edge = graph_edge(numbering->graph, index);
    if (edge_is_silent(edge))
        return 0;
    const bool back = !taken && !(edge->flags & EDGE_UNENCODED);
    numbering->back += back;
    return WORD_PUSH | (back ? WORD_REPEATS : 0) | index;
}

static void write_words(struct numbering *numbering, const bool *taken)
{
    const struct dictionary *dictionary = numbering->dictionary;
    for (uint32_t i = 0; i < dictionary->edges; i++) {
        set_word(numbering, i, word_without(numbering, i, taken[i]));
        numbering->cut += taken[i]; // those that were not cut are taken off below
    }
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        for (uint32_t i = into->first; i < into->first + into->count; i++) {
            const struct dictionary_step *step = &dictionary->step[i];
            if (step->edge == GRAPH_NONE)
                continue;
            set_word(numbering, step->edge,
                     (int64_t)(dictionary_number(dictionary, step) & ID_MASK));
            numbering->encoded++;
            numbering->cut--;
        }
    }
}

// Memory that a numbering needs while it is made.
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

// The worth of the edges of a dictionary: those that are missing push each time. Even an edge that
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

// Where functions have no ids of their own, calls that lead on from them come with the id 0.
static void reserve_targets(const struct dictionary *dictionary, struct scratch *scratch)
{
    const struct silent_edges *silent = &scratch->silent;
    for (uint32_t i = 0; i < silent->first[dictionary->functions]; i++)
        scratch->reserved[silent->to[i]] = true;
}

// Builds it again until it follows from its lists alone, as it does for readers.
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
                 struct dictionary **result, uint64_t *cold)
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
            *result = other, *cold = plan->cold;
        else if (plan->cold > 1)
            break;
    }
    return 0;
}

int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options)
{
    *numbering =
        (struct numbering){.graph = graph, .options = *options, .words.size = sizeof(int64_t)};
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
        status = build(graph, &plan, &numbering->dictionary, &numbering->cold);
        if (status == 0)
            status = settle(graph, &plan, &scratch, &numbering->dictionary);
    }
    if (status == 0)
        write_words(numbering, scratch.taken);
    silent_free(&scratch.silent);
    pool_unmap(graph->pool, scratch.memory, scratch.bytes);
    if (status < 0)
        numbering_free(numbering);
    return status;
}

void numbering_free(struct numbering *numbering)
{
    series_free(&numbering->words, numbering->graph->pool);
}
