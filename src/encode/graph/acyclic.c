// SPDX-License-Identifier: MIT
#include "encode/graph/acyclic.h"
#include <errno.h>
#include <string.h>

static void place(struct acyclic *acyclic, uint32_t function, uint32_t order)
{
    acyclic->order[function] = order;
    acyclic->at[order] = function;
}

int acyclic_init(struct acyclic *acyclic, const struct graph *graph,
                 const struct silent_edges *silent)
{
    uint32_t functions = graph->function_count, edges = graph->edge_count;
    *acyclic =
        (struct acyclic){.graph = graph, .silent = silent, .functions = functions, .edges = edges};
    acyclic->words = (size_t)functions * 7 + (size_t)edges * 2;
    acyclic->scratch = pool_map(graph->pool, acyclic->words * sizeof(uint32_t));
    if (!acyclic->scratch)
        return -ENOMEM;
    uint32_t **arrays[] = {&acyclic->order,     &acyclic->at,       &acyclic->mark,
                           &acyclic->first_out, &acyclic->first_in, &acyclic->forward,
                           &acyclic->backward};
    uint32_t *at = acyclic->scratch;
    for (unsigned i = 0; i < sizeof arrays / sizeof arrays[0]; i++, at += functions)
        *arrays[i] = at;
    acyclic->next_out = at;
    acyclic->next_in = at + edges;
    // Functions are numbered as they are met, most callers before what they call: a first order that
    // few edges contradict.
    for (uint32_t f = 0; f < functions; f++)
        place(acyclic, f, f);
    memset(acyclic->first_out, 0xff, functions * sizeof(uint32_t));
    memset(acyclic->first_in, 0xff, functions * sizeof(uint32_t));
    for (uint32_t i = 0; i < edges && silent->same; i++)
        if (edge_is_silent(graph_edge(graph, i)))
            acyclic_take(acyclic, i);
    return 0;
}

void acyclic_free(struct acyclic *acyclic)
{
    pool_unmap(acyclic->graph->pool, acyclic->scratch, acyclic->words * sizeof(uint32_t));
}

// One step of the search from the callee. True: it met the search from the caller.
static bool search_forward(struct acyclic *acyclic, uint32_t *depth, uint32_t last)
{
    uint32_t function = acyclic->forward[--*depth];
    for (uint32_t i = acyclic->first_out[function]; i != GRAPH_NONE; i = acyclic->next_out[i]) {
        uint32_t callee = silent_same(acyclic->silent, graph_edge(acyclic->graph, i)->callee);
        if (acyclic->mark[callee] == acyclic->last_mark + 1)
            return true;
        if (acyclic->order[callee] > last || acyclic->mark[callee] == acyclic->last_mark)
            continue;
        acyclic->mark[callee] = acyclic->last_mark;
        acyclic->forward[(*depth)++] = callee;
    }
    return false;
}

static bool search_backward(struct acyclic *acyclic, uint32_t *depth, uint32_t first)
{
    uint32_t function = acyclic->backward[--*depth];
    for (uint32_t i = acyclic->first_in[function]; i != GRAPH_NONE; i = acyclic->next_in[i]) {
        uint32_t caller = silent_same(acyclic->silent, graph_edge(acyclic->graph, i)->caller);
        if (acyclic->mark[caller] == acyclic->last_mark)
            return true;
        if (acyclic->order[caller] < first || acyclic->mark[caller] == acyclic->last_mark + 1)
            continue;
        acyclic->mark[caller] = acyclic->last_mark + 1;
        acyclic->backward[(*depth)++] = caller;
    }
    return false;
}

// Moves all that the callee leads to behind the caller.
static void move_down(struct acyclic *acyclic, uint32_t first, uint32_t last)
{
    uint32_t moved = 0, *kept = acyclic->forward;
    for (uint32_t i = first; i <= last; i++) {
        if (acyclic->mark[acyclic->at[i]] == acyclic->last_mark)
            kept[moved++] = acyclic->at[i];
        else
            place(acyclic, acyclic->at[i], i - moved);
    }
    for (uint32_t i = 0; i < moved; i++)
        place(acyclic, kept[i], last + 1 - moved + i);
}

// Moves all that leads to the caller before the callee.
static void move_up(struct acyclic *acyclic, uint32_t first, uint32_t last)
{
    uint32_t moved = 0, *kept = acyclic->backward;
    for (uint32_t i = last + 1; i-- > first;) {
        if (acyclic->mark[acyclic->at[i]] == acyclic->last_mark + 1)
            kept[moved++] = acyclic->at[i];
        else
            place(acyclic, acyclic->at[i], i + moved);
    }
    for (uint32_t i = 0; i < moved; i++)
        place(acyclic, kept[i], first + moved - 1 - i);
}

// Whether an edge that points backward in the order can be taken; then the order is changed. Both
// ends are searched from in turn, so that the smaller side decides.
static bool make_way(struct acyclic *acyclic, uint32_t caller, uint32_t callee)
{
    uint32_t first = acyclic->order[callee], last = acyclic->order[caller];
    uint32_t forward = 1, backward = 1;
    acyclic->last_mark += 2;
    acyclic->mark[callee] = acyclic->last_mark;
    acyclic->mark[caller] = acyclic->last_mark + 1;
    acyclic->forward[0] = callee;
    acyclic->backward[0] = caller;
    for (;;) {
        if (search_forward(acyclic, &forward, last))
            return false;
        if (forward == 0) {
            move_down(acyclic, first, last);
            return true;
        }
        if (search_backward(acyclic, &backward, first))
            return false;
        if (backward == 0) {
            move_up(acyclic, first, last);
            return true;
        }
    }
}

bool acyclic_take(struct acyclic *acyclic, uint32_t index)
{
    const struct graph_edge *edge = graph_edge(acyclic->graph, index);
    uint32_t caller = silent_same(acyclic->silent, edge->caller);
    uint32_t callee = silent_same(acyclic->silent, edge->callee);
    if (caller == callee ||
        (acyclic->order[callee] < acyclic->order[caller] && !make_way(acyclic, caller, callee)))
        return false;
    acyclic->next_out[index] = acyclic->first_out[caller];
    acyclic->next_in[index] = acyclic->first_in[callee];
    acyclic->first_out[caller] = acyclic->first_in[callee] = index;
    return true;
}

static bool colder(const struct graph *graph, uint32_t one, uint32_t other)
{
    uint64_t first = graph_edge(graph, one)->heat, second = graph_edge(graph, other)->heat;
    return first < second || (first == second && one > other);
}

void sort_by_heat(const struct graph *graph, uint32_t *edges, uint32_t count, uint32_t *scratch)
{
    uint32_t *from = edges, *to = scratch;
    for (uint64_t width = 1; width < count; width *= 2) { // merges from the bottom up
        for (uint64_t start = 0; start < count; start += 2 * width) {
            uint64_t middle = start + width < count ? start + width : count;
            uint64_t end = start + 2 * width < count ? start + 2 * width : count;
            uint64_t left = start, right = middle;
            for (uint64_t i = start; i < end; i++) {
                bool take_right =
                    left == middle || (right < end && colder(graph, from[left], from[right]));
                to[i] = take_right ? from[right++] : from[left++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != edges)
        memcpy(edges, from, (size_t)count * sizeof *edges);
}
