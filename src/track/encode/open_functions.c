// SPDX-License-Identifier: MIT
// Which functions can have numbers, as far as that depends on where they may go silently.

#include "track/encode/open_functions.h"

static struct series facts = {.size = sizeof(struct encode_facts)};

bool encode_facts_reach(uint32_t function)
{
    return series_reach(&facts, &encode.pool, function);
}

struct encode_facts *encode_facts_of(uint32_t function)
{
    return series_at(&facts, function);
}

#define BEYOND_MOST 16
static uintptr_t beyond[BEYOND_MOST];
static unsigned beyond_count;

void encode_doubt_functions(const uintptr_t *functions, unsigned count)
{
    for (unsigned i = 0; i < count && beyond_count < BEYOND_MOST; i++)
        beyond[beyond_count++] = functions[i];
}

// As good as outside until it is met.
struct encode_facts encode_facts_new(uintptr_t address)
{
    struct encode_facts fresh = {.address = address, .flags = OUTSIDE | UNMET};
    for (unsigned i = 0; i < beyond_count; i++)
        if (beyond[i] == address)
            fresh.flags |= BEYOND;
    return fresh;
}

bool encode_is_open(uint32_t function)
{
    return encode_facts_of(function)->flags & OPEN;
}

void encode_unmeet(uint32_t function)
{
    struct encode_facts *of = encode_facts_of(function);
    of->flags |= of->flags & OUTSIDE ? UNMET : UNMET | AGAIN;
}

bool encode_has_opened(uint32_t function)
{
    struct encode_facts *of = encode_facts_of(function);
    const struct encode_epoch *epoch = atomic_load_explicit(&encode.epoch, memory_order_relaxed);
    const bool again = of->flags & AGAIN;
    of->flags &= (uint16_t)~AGAIN;
    return again &&
           (of->flags & OUTSIDE || (of->flags & OPEN && !encode_was_open(epoch, function)));
}

void encode_unsettle(void)
{
    atomic_store_explicit(&encode.unsettled, true, memory_order_release);
    for (struct encode_thread *thread = encode.threads; thread; thread = thread->next)
        encode_notice(thread->state);
}

void encode_spread(uint32_t first_edge)
{
    const struct graph *graph = &encode.graph;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = first_edge; i < graph->edge_count; i++) {
            const struct graph_edge *edge = graph_edge(graph, i);
            const unsigned more =
                encode_facts_of(edge->callee)->flags & ~encode_facts_of(edge->caller)->flags;
            if (!edge_is_silent(edge) || !(more & OPEN))
                continue;
            encode_facts_of(edge->caller)->flags |= OPEN;
            changed = true;
        }
    }
}

bool encode_may_number(uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    return !((encode_facts_of(one->callee)->flags | encode_facts_of(one->caller)->flags) & OUTSIDE);
}

bool encode_is_left_out(uint32_t function)
{
    return encode_facts_of(function)->flags & OUTSIDE;
}

bool encode_leads_outside(uint32_t edge)
{
    return encode_facts_of(graph_edge(&encode.graph, edge)->callee)->flags & OUTSIDE;
}

bool encode_is_untold(const struct encode_thread *thread, place_t place)
{
    const struct context_state *context = &thread->state->context;
    const struct encode_epoch *epoch = thread->epoch;
    if (place == thread->root)
        return false;
    const uint32_t function = graph_find_function(&encode.graph, place);
    if (function != GRAPH_NONE && encode_facts_of(function)->flags & OUTSIDE)
        return true;
    bool untold = id_number(context->id, encode_was_open(epoch, function)) == ID_NONE;
    for (uint32_t i = 0; i < context->depth && !untold; i++) {
        const struct cc_entry *entry = &context->stack[i];
        const uint32_t caller = entry->edge < encode.graph.edge_count
                                    ? graph_edge(&encode.graph, entry->edge)->caller
                                    : GRAPH_NONE;
        untold = id_number(entry->id, encode_was_open(epoch, caller)) == ID_NONE;
    }
    return untold;
}

bool encode_is_reached_unseen(uint32_t function)
{
    return encode_facts_of(function)->flags & BEYOND;
}

// What is reached from an open function has its id. So that it is nobody else's, all open functions
// lead silently to one that is nowhere: then the ids of no two of them are the same.
static void tell_open(void)
{
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_facts *of = encode_facts_of(f);
        if ((of->flags & (OPEN | NOWHERE)) != OPEN)
            continue;
        // Right behind its first byte no call returns.
        const place_t place = graph_function(&encode.graph, f)->entry + 1;
        if (graph_add_edge(&encode.graph, place, f, encode.nowhere, EDGE_SILENT_JUMP) != GRAPH_NONE)
            of->flags |= NOWHERE;
        else
            of->flags |= OUTSIDE; // no memory
    }
}

void encode_settle(void)
{
    struct encode_site *site;
    encode_spread(0);
    tell_open();
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (site->edge == GRAPH_NONE)
            continue;
        struct graph_edge *edge = graph_edge(&encode.graph, site->edge);
        if (encode_may_number(site->edge))
            edge->flags &= (uint8_t)~EDGE_UNENCODED;
        else
            edge->flags |= EDGE_UNENCODED;
    }
    encode_settle_targets();
}
