// SPDX-License-Identifier: MIT
#include "encode/codebook/serial.h"

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
        put(out, edge->kind + 8u * (edge->flags & EDGE_UNENCODED));
        caller = edge->caller;
    }
}

static unsigned flags_of(const struct dictionary_function *function)
{
    return function->reserved + 2u * function->has_no_own;
}

// Whether there is anything to write of a function.
static bool has_list(const struct dictionary_function *function)
{
    return function->calls > 0 || flags_of(function);
}

static void put_list(struct serial *out, const struct dictionary *dictionary, uint32_t function)
{
    const struct dictionary_function *into = &dictionary->function[function];
    uint32_t before = 0;
    put(out, 4ull * into->calls + flags_of(into));
    for (uint32_t i = into->first; i < into->first + into->count; i++) {
        const uint32_t edge = dictionary->step[i].edge;
        if (edge == GRAPH_NONE)
            continue;
        put_signed(out, (uint64_t)edge - before);
        before = edge;
    }
}

void serial_dictionary(struct serial *out, const struct dictionary *dictionary)
{
    uint32_t lists = 0, next = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++)
        lists += has_list(&dictionary->function[f]);
    put(out,
        dictionary->ranges == RANGES_FROM_ZERO ? SECTION_DICTIONARY_FROM_ZERO : SECTION_DICTIONARY);
    put(out, dictionary->stamp);
    put(out, 0);
    put(out, dictionary->functions);
    put(out, dictionary->edges);
    put(out, dictionary->max_id);
    put(out, lists);
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        if (!has_list(&dictionary->function[f]))
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
