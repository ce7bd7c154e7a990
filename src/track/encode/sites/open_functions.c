// SPDX-License-Identifier: MIT
// Which functions can have numbers, as far as that depends on where they may go silently.

#include "track/encode/sites/open_functions.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/threads/epoch.h"

static struct series facts = {.size = sizeof(struct encode_function)};

bool encode_function_reserve(uint32_t function)
{
    return series_reach(&facts, &encode.pool, function);
}

struct encode_function *encode_function_of(uint32_t function)
{
    return series_at(&facts, function);
}

#define BEYOND_MOST 128
static uintptr_t beyond[BEYOND_MOST];
static unsigned beyond_count;

void encode_mark_reached_unseen(const uintptr_t *functions, unsigned count)
{
    for (unsigned i = 0; i < count && beyond_count < BEYOND_MOST; i++)
        beyond[beyond_count++] = functions[i];
}

// As good as outside until it is met.
struct encode_function encode_function_new(uintptr_t address)
{
    struct encode_function fresh = {.address = address,
                                    .flags = FUNCTION_OUTSIDE | FUNCTION_NOT_INSTRUMENTED};
    for (unsigned i = 0; i < beyond_count; i++)
        if (beyond[i] == address)
            fresh.flags |= FUNCTION_REACHED_UNSEEN;
    return fresh;
}

bool encode_is_open(uint32_t function)
{
    return encode_function_of(function)->flags & FUNCTION_OPEN;
}

void encode_forget_function(uint32_t function)
{
    struct encode_function *of = encode_function_of(function);
    of->flags |= of->flags & FUNCTION_OUTSIDE ? FUNCTION_NOT_INSTRUMENTED
                                              : FUNCTION_NOT_INSTRUMENTED | FUNCTION_RELOADED;
}

bool encode_has_become_open(uint32_t function)
{
    struct encode_function *of = encode_function_of(function);
    const struct encode_epoch *epoch = atomic_load_explicit(&encode.epoch, memory_order_relaxed);
    const bool again = of->flags & FUNCTION_RELOADED;
    of->flags &= (uint16_t)~FUNCTION_RELOADED;
    return again && (of->flags & FUNCTION_OUTSIDE ||
                     (of->flags & FUNCTION_OPEN && !encode_was_open(epoch, function)));
}

void encode_invalidate(void)
{
    atomic_store_explicit(&encode.invalidated, true, memory_order_release);
    for (struct encode_thread *thread = encode.threads; thread; thread = thread->next)
        encode_take_slow_path(thread->state);
}

void encode_spread_open(uint32_t first_edge)
{
    const struct graph *graph = &encode.graph;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = first_edge; i < graph->edge_count; i++) {
            const struct graph_edge *edge = graph_edge(graph, i);
            const unsigned more =
                encode_function_of(edge->callee)->flags & ~encode_function_of(edge->caller)->flags;
            if (!edge_is_silent(edge) || !(more & FUNCTION_OPEN))
                continue;
            encode_function_of(edge->caller)->flags |= FUNCTION_OPEN;
            changed = true;
        }
    }
}

bool encode_may_number(uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    return !((encode_function_of(one->callee)->flags | encode_function_of(one->caller)->flags) &
             FUNCTION_OUTSIDE);
}

bool encode_is_outside(uint32_t function)
{
    return encode_function_of(function)->flags & FUNCTION_OUTSIDE;
}

bool encode_leads_outside(uint32_t edge)
{
    return encode_function_of(graph_edge(&encode.graph, edge)->callee)->flags & FUNCTION_OUTSIDE;
}

bool encode_lacks_number(const struct encode_thread *thread, place_t place)
{
    const struct context_state *context = &thread->state->context;
    const struct encode_epoch *epoch = thread->epoch;
    if (place == thread->root)
        return false;
    const uint32_t function = graph_find_function(&encode.graph, place);
    if (function != GRAPH_NONE && encode_function_of(function)->flags & FUNCTION_OUTSIDE)
        return true;
    bool invalid = id_number(context->id, encode_was_open(epoch, function)) == ID_NONE;
    for (uint32_t i = 0; i < context->depth && !invalid; i++) {
        const struct cc_entry *entry = &context->stack[i];
        const uint32_t caller = entry->edge < encode.graph.edge_count
                                    ? graph_edge(&encode.graph, entry->edge)->caller
                                    : GRAPH_NONE;
        invalid = id_number(entry->id, encode_was_open(epoch, caller)) == ID_NONE;
    }
    return invalid;
}

bool encode_is_reached_unseen(uint32_t function)
{
    return encode_function_of(function)->flags & FUNCTION_REACHED_UNSEEN;
}

// Code that is reached from an open function has its id, which must be nobody else's. So all open
// functions lead silently to one that stands for the unknown: then no two of them share an id.
static void announce_open(void)
{
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_function *of = encode_function_of(f);
        if ((of->flags & (FUNCTION_OPEN | FUNCTION_HAS_OPEN_EDGE)) != FUNCTION_OPEN)
            continue;
        // Right behind its first byte no call returns.
        const place_t place = graph_function(&encode.graph, f)->entry + 1;
        if (graph_add_edge(&encode.graph, place, f, encode.unknown_callee, EDGE_SILENT_JUMP) !=
            GRAPH_NONE)
            of->flags |= FUNCTION_HAS_OPEN_EDGE;
        else
            of->flags |= FUNCTION_OUTSIDE; // no memory
    }
}

void encode_choose_edges(void)
{
    struct encode_site *site;
    encode_spread_open(0);
    announce_open();
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (site->edge == GRAPH_NONE)
            continue;
        struct graph_edge *edge = graph_edge(&encode.graph, site->edge);
        if (encode_may_number(site->edge))
            edge->flags &= (uint8_t)~EDGE_UNENCODED;
        else
            edge->flags |= EDGE_UNENCODED;
    }
    encode_choose_targets();
}
