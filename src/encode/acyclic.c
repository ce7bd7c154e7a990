// SPDX-License-Identifier: MIT
#include "encode/acyclic.h"
#include <errno.h>
#include <string.h>

// A first order in which few edges point backward: the reverse of the order in which a depth-first
// search leaves the functions. It only saves work; which edges are taken does not depend on it.
static void order_by_search(struct acyclic *acyclic)
{
    const struct graph *graph = acyclic->graph;
    uint32_t *todo = acyclic->found_in; // by depth: the next edge to look at
    uint32_t left = acyclic->functions, depth = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t start = 0; start < acyclic->functions; start++) {
            // Roots first: what they lead to then comes after them.
            if (acyclic->mark[start] || (pass == 0 && !graph_function(graph, start)->root))
                continue;
            acyclic->mark[start] = 1;
            acyclic->stack[0] = start;
            todo[0] = graph_function(graph, start)->first_out;
            for (depth = 1; depth > 0;) {
                uint32_t next = todo[depth - 1];
                if (next == GRAPH_NONE) {
                    acyclic->order[acyclic->stack[--depth]] = --left;
                    continue;
                }
                const struct graph_edge *edge = graph_edge(graph, next);
                todo[depth - 1] = edge->next_out;
                if (acyclic->mark[edge->callee])
                    continue;
                acyclic->mark[edge->callee] = 1;
                acyclic->stack[depth] = edge->callee;
                todo[depth++] = graph_function(graph, edge->callee)->first_out;
            }
        }
    }
    acyclic->last_mark = 1;
}

int acyclic_init(struct acyclic *acyclic, const struct graph *graph)
{
    uint32_t functions = graph->function_count, edges = graph->edge_count;
    *acyclic = (struct acyclic){.graph = graph, .functions = functions, .edges = edges};
    acyclic->words = (size_t)functions * 7 + (size_t)edges * 2;
    acyclic->scratch = pool_map(graph->pool, acyclic->words * sizeof(uint32_t));
    if (!acyclic->scratch)
        return -ENOMEM;
    uint32_t **arrays[] = {&acyclic->order,    &acyclic->mark,      &acyclic->first_out,
                           &acyclic->first_in, &acyclic->found_out, &acyclic->found_in,
                           &acyclic->stack};
    uint32_t *at = acyclic->scratch;
    for (unsigned i = 0; i < sizeof arrays / sizeof arrays[0]; i++, at += functions)
        *arrays[i] = at;
    acyclic->next_out = at;
    acyclic->next_in = at + edges;
    order_by_search(acyclic);
    memset(acyclic->first_out, 0xff, functions * sizeof(uint32_t));
    memset(acyclic->first_in, 0xff, functions * sizeof(uint32_t));
    return 0;
}

void acyclic_free(struct acyclic *acyclic)
{
    pool_unmap(acyclic->graph->pool, acyclic->scratch, acyclic->words * sizeof(uint32_t));
}

static void sort_by_order(const struct acyclic *acyclic, uint32_t *functions, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap /= 2) { // shell sort: these are few
        for (uint32_t i = gap; i < count; i++) {
            uint32_t moved = functions[i], j = i;
            for (; j >= gap && acyclic->order[functions[j - gap]] > acyclic->order[moved]; j -= gap)
                functions[j] = functions[j - gap];
            functions[j] = moved;
        }
    }
}

// What taken edges lead to from a function, no further than `last` in the order; GRAPH_NONE if
// `never` is among it, else how many.
static uint32_t search_forward(struct acyclic *acyclic, uint32_t start, uint32_t last,
                               uint32_t never)
{
    uint32_t mark = ++acyclic->last_mark, count = 0, depth = 0;
    acyclic->mark[start] = mark;
    acyclic->stack[depth++] = start;
    while (depth > 0) {
        uint32_t function = acyclic->stack[--depth];
        acyclic->found_out[count++] = function;
        for (uint32_t i = acyclic->first_out[function]; i != GRAPH_NONE; i = acyclic->next_out[i]) {
            uint32_t callee = graph_edge(acyclic->graph, i)->callee;
            if (callee == never)
                return GRAPH_NONE;
            if (acyclic->order[callee] > last || acyclic->mark[callee] == mark)
                continue;
            acyclic->mark[callee] = mark;
            acyclic->stack[depth++] = callee;
        }
    }
    return count;
}

static uint32_t search_backward(struct acyclic *acyclic, uint32_t start, uint32_t first)
{
    uint32_t mark = ++acyclic->last_mark, count = 0, depth = 0;
    acyclic->mark[start] = mark;
    acyclic->stack[depth++] = start;
    while (depth > 0) {
        uint32_t function = acyclic->stack[--depth];
        acyclic->found_in[count++] = function;
        for (uint32_t i = acyclic->first_in[function]; i != GRAPH_NONE; i = acyclic->next_in[i]) {
            uint32_t caller = graph_edge(acyclic->graph, i)->caller;
            if (acyclic->order[caller] < first || acyclic->mark[caller] == mark)
                continue;
            acyclic->mark[caller] = mark;
            acyclic->stack[depth++] = caller;
        }
    }
    return count;
}

// Puts what leads to the caller before what the callee leads to, in the places that both had.
static void reorder(struct acyclic *acyclic, uint32_t out_count, uint32_t in_count)
{
    sort_by_order(acyclic, acyclic->found_out, out_count);
    sort_by_order(acyclic, acyclic->found_in, in_count);
    uint32_t *places = acyclic->stack, out = 0, in = 0, count = 0;
    while (out < out_count || in < in_count) {
        uint32_t from_out = out < out_count ? acyclic->order[acyclic->found_out[out]] : UINT32_MAX;
        uint32_t from_in = in < in_count ? acyclic->order[acyclic->found_in[in]] : UINT32_MAX;
        places[count++] = from_out < from_in ? from_out : from_in;
        out += from_out < from_in;
        in += from_out >= from_in;
    }
    for (uint32_t i = 0; i < in_count; i++)
        acyclic->order[acyclic->found_in[i]] = places[i];
    for (uint32_t i = 0; i < out_count; i++)
        acyclic->order[acyclic->found_out[i]] = places[in_count + i];
}

bool acyclic_take(struct acyclic *acyclic, uint32_t index)
{
    const struct graph_edge *edge = graph_edge(acyclic->graph, index);
    uint32_t caller = edge->caller, callee = edge->callee;
    if (caller == callee)
        return false;
    uint32_t first = acyclic->order[callee], last = acyclic->order[caller];
    if (first < last) {
        uint32_t out_count = search_forward(acyclic, callee, last, caller);
        if (out_count == GRAPH_NONE)
            return false;
        reorder(acyclic, out_count, search_backward(acyclic, caller, first));
    }
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
