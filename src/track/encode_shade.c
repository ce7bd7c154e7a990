// SPDX-License-Identifier: MIT
// What is not worth its numbers. A sample climbs out of functions that no number tells, so
// functions whose calls cost much are left *dark*: all they call runs as it was compiled. A call of
// one, from a function that has numbers, blinds the thread: an addition makes the id one that
// nothing has, so that nothing is told below by a number that would mean something else.
//
//   main ─3─► run ──blinds──► loop ───► op ───► malloc      loop is dark: its calls cost nothing;
//     └──────5─────► malloc                                 op is in its shade, since nobody else
//                                                           calls it; malloc is not
//
// Which are dark is found by samples: those that hit a stub, or a hook, tell whose calls cost.

#include "track/encode_facts.h"

enum {
    // Samples after which is decided, and the part of them that may hit stubs and hooks.
    DECIDE = 256,
    PART = 256,
    HITS_LEAST = 2, // of a function
    SCANNED = 24,   // words of a stack, from a hook to its stub
};

static uint32_t samples, hits; // of late; relaxed, any of them may be lost

static bool follows_open(void)
{
    return encode.guesses || encode.restless || encode.weighs;
}

// Where somebody has a use for numbers at one place, or pays for them, all have theirs.
static bool may_shade(void)
{
    return !encode.guesses && !encode.weighs;
}

bool encode_is_futile(uint32_t function)
{
    const unsigned flags = encode_facts_of(function)->flags;
    return flags & SHADED || (flags & OPEN && !follows_open());
}

static bool is_left_out(uint32_t function)
{
    return encode_is_futile(function) && !(encode_facts_of(function)->flags & UNLOOKED);
}

bool encode_blinds(uint32_t edge)
{
    const uint32_t callee = graph_edge(&encode.graph, edge)->callee;
    // Of one that is not looked at, pushes tell how often it is called.
    return is_left_out(callee);
}

bool encode_is_blind(const struct encode_thread *thread)
{
    const struct machine *machine = &thread->state->machine;
    const uint64_t blinding = encode_blinding(thread->epoch->dictionary);
    bool blind = machine->id >= blinding;
    for (uint32_t i = 0; i < machine->depth && !blind; i++)
        blind = machine->stack[i].id >= blinding;
    return blind;
}

bool encode_is_dim(const struct encode_thread *thread, place_t place)
{
    if (place == thread->root)
        return false;
    if (encode_is_blind(thread))
        return true;
    const uint32_t function = graph_find_function(&encode.graph, place);
    // What is not looked at yet may be soon.
    return function != GRAPH_NONE && is_left_out(function);
}

// ---- which functions

static bool is_lit(uint32_t function)
{
    return !(encode_facts_of(function)->flags & (OPEN | SHADED));
}

static uint32_t reach(uint32_t function, uint32_t mark, uint32_t next)
{
    struct graph_function *reached = graph_function(&encode.graph, function);
    if (reached->mark == mark)
        return next;
    reached->mark = mark;
    reached->work = next;
    return function;
}

// All that is called from functions which are told by numbers.
static uint32_t mark_reached(void)
{
    struct graph *graph = &encode.graph;
    const uint32_t mark = ++graph->last_mark;
    uint32_t next = GRAPH_NONE;
    for (uint32_t f = 0; f < graph->function_count; f++)
        if (graph_function(graph, f)->root)
            next = reach(f, mark, next);
    while (next != GRAPH_NONE) {
        const uint32_t function = next;
        next = graph_function(graph, function)->work;
        if (!is_lit(function))
            continue;
        for (uint32_t i = graph_function(graph, function)->first_out; i != GRAPH_NONE;
             i = graph_edge(graph, i)->next_out)
            next = reach(graph_edge(graph, i)->callee, mark, next);
    }
    return mark;
}

void encode_shade(void)
{
    const bool shades = may_shade();
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_facts *of = encode_facts_of(f);
        of->flags &= (uint16_t)~SHADED;
        if (shades && of->flags & DARK)
            of->flags |= SHADED;
    }
    encode_spread(0);
    if (!shades)
        return;
    const uint32_t mark = mark_reached();
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_facts *of = encode_facts_of(f);
        if (graph_function(&encode.graph, f)->mark != mark)
            of->flags |= SHADED;
        // Where its jumps lead to in the meantime nobody knows.
        if (of->flags & SHADED && of->flags & TAILS)
            of->flags |= OPEN;
    }
    encode_spread(0);
}

static uint32_t costliest(void)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t f = 0; f < encode.graph.function_count; f++)
        if (is_lit(f) && !graph_function(&encode.graph, f)->root &&
            encode_facts_of(f)->hits >= HITS_LEAST &&
            (best == GRAPH_NONE || encode_facts_of(f)->hits > encode_facts_of(best)->hits))
            best = f;
    return best;
}

static void forget_half(void)
{
    for (uint32_t f = 0; f < encode.graph.function_count; f++)
        encode_facts_of(f)->hits /= 2;
    samples /= 2;
    hits /= 2;
}

// From the costliest on, until the others cost half of what they may.
static void darken(void)
{
    while (hits * 2 * PART > samples) {
        const uint32_t function = costliest();
        if (function == GRAPH_NONE)
            break;
        struct encode_facts *of = encode_facts_of(function);
        of->flags |= DARK;
        hits -= of->hits < hits ? of->hits : hits;
        of->hits = 0;
        encode.darkened = true;
    }
}

// For tests: any of them.
void encode_darken_some(uint64_t random)
{
    for (uint32_t f = 0; f < encode.graph.function_count; f++) {
        struct encode_facts *of = encode_facts_of(f);
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        of->flags &= (uint16_t)~DARK;
        if (random >> 58 == 0 && !graph_function(&encode.graph, f)->root)
            of->flags |= DARK;
    }
}

// ---- what costs

static const struct encode_site *site_at(const struct encode_thread *thread, uintptr_t pc,
                                         uintptr_t sp)
{
    struct stub_place place;
    if (sites_locate(pc, &place))
        return encode_site_of(place.site);
    // On another stack nobody knows where that ends.
    if (sp < thread->stack.low)
        return NULL;
    const uintptr_t *word = (const uintptr_t *)sp;
    for (unsigned i = 0; i < SCANNED && (uintptr_t)(word + i + 1) <= thread->stack.high; i++)
        if (sites_locate(word[i], &place))
            return encode_site_of(place.site);
    return NULL;
}

// Whether the next encoding, or a look at what is called, will make it cheaper.
static bool is_passing(const struct encode_thread *thread, const struct encode_site *site)
{
    return site->edge != GRAPH_NONE &&
           (site->edge >= thread->epoch->dictionary->edges ||
            encode_facts_of(graph_edge(&encode.graph, site->edge)->callee)->flags & UNLOOKED);
}

void encode_count_sample(void)
{
    samples++;
}

void encode_count_hit(const struct encode_thread *thread, uintptr_t pc, uintptr_t sp)
{
    const struct encode_site *site = site_at(thread, pc, sp);
    if (site && !is_passing(thread, site) && may_shade()) {
        struct encode_facts *of = encode_facts_of(site->caller);
        of->hits += of->hits < UINT16_MAX;
        hits++;
    }
    if (samples < DECIDE)
        return;
    if (hits * PART > samples)
        darken();
    forget_half();
}
