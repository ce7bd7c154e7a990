// SPDX-License-Identifier: MIT
#include "encode/serial.h"

static void put(struct serial *out, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        if (out->size < out->capacity)
            out->data[out->size] = byte;
        out->size++;
        value >>= 7;
    } while (value);
}

static void put_signed(struct serial *out, uint64_t difference)
{
    put(out, difference << 1 ^ (0 - (difference >> 63)));
}

void serial_graph(struct serial *out, const struct graph *graph, uint32_t from_function,
                  uint32_t from_edge)
{
    put(out, SECTION_GRAPH);
    put(out, from_function);
    put(out, graph->function_count - from_function);
    place_t before = from_function > 0 ? graph_function(graph, from_function - 1)->entry : 0;
    for (uint32_t i = from_function; i < graph->function_count; i++) {
        place_t entry = graph_function(graph, i)->entry;
        put_signed(out, entry - before);
        before = entry;
    }
    put(out, from_edge);
    put(out, graph->edge_count - from_edge);
    uint32_t caller = 0;
    for (uint32_t i = from_edge; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        put_signed(out, (uint64_t)edge->caller - caller);
        put_signed(out, (uint64_t)edge->callee - edge->caller);
        put_signed(out, graph_site(graph, edge->site)->place -
                            graph_function(graph, edge->caller)->entry);
        put(out, edge->kind + 8u * edge->flags);
        caller = edge->caller;
    }
}

// The next call among the steps of a function, from one on; the end if there is none.
static uint32_t next_call(const struct dictionary *dictionary, uint32_t function, uint32_t step)
{
    const struct dictionary_function *into = &dictionary->function[function];
    while (step < into->first + into->count && dictionary->step[step].edge == GRAPH_NONE)
        step++;
    return step;
}

static unsigned flags_of(const struct dictionary_function *function)
{
    return function->reserved + 2u * function->has_no_own;
}

static bool list_changed(const struct dictionary *dictionary, const struct dictionary *previous,
                         uint32_t function)
{
    const struct dictionary_function *now = &dictionary->function[function];
    if (!previous || function >= previous->functions)
        return now->calls > 0 || flags_of(now);
    const struct dictionary_function *then = &previous->function[function];
    if (now->calls != then->calls || flags_of(now) != flags_of(then))
        return true;
    uint32_t mine = now->first, other = then->first;
    for (uint32_t i = 0; i < now->calls; i++) {
        mine = next_call(dictionary, function, mine);
        other = next_call(previous, function, other);
        if (dictionary->step[mine++].edge != previous->step[other++].edge)
            return true;
    }
    return false;
}

static void put_list(struct serial *out, const struct dictionary *dictionary, uint32_t function)
{
    const struct dictionary_function *into = &dictionary->function[function];
    uint32_t before = 0, step = into->first;
    put(out, 4ull * into->calls + flags_of(into));
    for (uint32_t i = 0; i < into->calls; i++) {
        step = next_call(dictionary, function, step);
        put_signed(out, (uint64_t)dictionary->step[step].edge - before);
        before = dictionary->step[step++].edge;
    }
}

void serial_dictionary(struct serial *out, const struct dictionary *dictionary,
                       const struct dictionary *previous)
{
    uint32_t changed = 0, next = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++)
        changed += list_changed(dictionary, previous, f);
    put(out, SECTION_DICTIONARY);
    put(out, dictionary->stamp);
    put(out, previous ? dictionary->stamp - previous->stamp : 0);
    put(out, dictionary->functions);
    put(out, dictionary->edges);
    put(out, dictionary->max_id);
    put(out, changed);
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        if (!list_changed(dictionary, previous, f))
            continue;
        put(out, f - next);
        put_list(out, dictionary, f);
        next = f + 1;
    }
}

// A number of a function, of which GRAPH_NONE is the one before the first.
static void put_function(struct serial *out, uint32_t function)
{
    put(out, (uint32_t)(function + 1));
}

static void put_node(struct serial *out, const struct intern_node *node, uint32_t number)
{
    switch (node->edge) {
    case INTERN_ORIGIN:
        put(out, 0);
        put(out, node->id);
        put_function(out, node->count);
        put_function(out, node->parent);
        put(out, node->handle);
        return;
    case INTERN_POINT:
        put(out, 1);
        put(out, node->id);
        put_function(out, node->count);
        break;
    case INTERN_FRAME:
        put(out, 2);
        put(out, node->id);
        put(out, node->handle);
        break;
    default:
        put(out, (uint64_t)node->edge + 3);
        put(out, node->id);
        put(out, node->count);
    }
    put_signed(out, (uint64_t)node->parent - number);
}

void serial_stacks(struct serial *out, const struct intern_node *nodes, uint32_t from, uint32_t to)
{
    put(out, SECTION_STACKS);
    put(out, from);
    put(out, to - from);
    for (uint32_t i = from; i < to; i++)
        put_node(out, &nodes[i - from], i);
}
