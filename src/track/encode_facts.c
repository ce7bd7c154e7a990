// SPDX-License-Identifier: MIT
// Which functions can have numbers, as far as that depends on where they may go silently.

#include "track/encode_facts.h"

// Encodings that were made because a jump went where nobody knew. So many, and no more.
#define SURPRISES_MOST 64
#define SURPRISES_OF_ONE 5 // by one function
#define HOT_PUSHES 5000
static uint32_t surprises;

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

// As good as open until it is looked at.
struct encode_facts encode_facts_new(uintptr_t address)
{
    struct encode_facts fresh = {.address = address, .flags = OPEN | UNLOOKED};
    for (unsigned i = 0; i < beyond_count; i++)
        if (beyond[i] == address)
            fresh.flags |= BEYOND;
    return fresh;
}

bool encode_is_open(uint32_t function)
{
    return encode_facts_of(function)->flags & (OPEN | SHADED);
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
            if (!edge_is_silent(edge) || !(more & (OPEN | PUSHES | SHADED)))
                continue;
            encode_facts_of(edge->caller)->flags |= more & (OPEN | PUSHES | SHADED);
            changed = true;
        }
    }
}

bool encode_may_number(uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    return !((encode_facts_of(one->callee)->flags | encode_facts_of(one->caller)->flags) &
             (OPEN | PUSHES | SHADED));
}

bool encode_is_doubted(uint32_t function)
{
    return encode_facts_of(function)->flags & (DOUBTED | BEYOND);
}

// Whether all places that a function leaves for by hooked jumps seem to be known.
// After a surprise that takes several encodings without another one, and after each twice as many.
static bool is_steady(const struct encode_facts *of)
{
    return (of->flags & (LEFT | HOT)) && !(of->flags & NEWS) && surprises < SURPRISES_MOST &&
           (of->surprises == 0 || of->calm >> of->surprises > 0);
}

bool encode_may_settle(uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    const struct encode_facts *ends[] = {encode_facts_of(one->caller),
                                         encode_facts_of(one->callee)};
    bool waits = false;
    for (unsigned i = 0; i < 2; i++) {
        if (ends[i]->flags & (OPEN | SHADED) || ends[i]->surprises >= SURPRISES_OF_ONE)
            return false;
        waits |= (ends[i]->flags & PUSHES) && (ends[i]->flags & TAILS) && ends[i]->surprises > 0;
    }
    return waits && surprises < SURPRISES_MOST;
}

// Those through which much was pushed: worth the risk that they leave for where nobody knows.
static void mark_hot(void)
{
    for (uint32_t i = 0; i < encode.graph.edge_count; i++) {
        const struct graph_edge *edge = graph_edge(&encode.graph, i);
        if (edge->heat < HOT_PUSHES)
            continue;
        encode_facts_of(edge->caller)->flags |= HOT;
        encode_facts_of(edge->callee)->flags |= HOT;
    }
}

void encode_settle(void)
{
    struct encode_site *site;
    // Before anything changes, as in encode_look().
    atomic_store_explicit(&encode.unsettled, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    mark_hot();
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_facts *of = encode_facts_of(f);
        if (of->flags & NEWS)
            of->calm = 0;
        else if (of->calm < UINT8_MAX)
            of->calm++;
        if ((of->flags & TAILS) && !is_steady(of))
            of->flags |= PUSHES;
        else
            of->flags &= (uint16_t)~PUSHES;
        of->flags &= (uint16_t)~NEWS;
    }
    encode_shade();
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (site->edge == GRAPH_NONE)
            continue;
        struct graph_edge *edge = graph_edge(&encode.graph, site->edge);
        if (encode_may_number(site->edge))
            edge->flags &= (uint8_t)~EDGE_UNENCODED;
        else
            edge->flags |= EDGE_UNENCODED;
    }
}

void encode_trust(void)
{
    for (uint32_t f = 0; f < encode.graph.function_count; f++)
        encode_facts_of(f)->flags &= (uint16_t)~DOUBTED;
}

bool encode_surprise(uint32_t caller, uint32_t callee)
{
    struct encode_facts *of = encode_facts_of(caller);
    const bool surprise = !(of->flags & PUSHES);
    of->flags |= LEFT | NEWS;
    if (surprise && of->surprises < SURPRISES_OF_ONE)
        of->surprises++;
    encode_facts_of(callee)->flags |= DOUBTED;
    surprises += surprise;
    return surprise;
}
