// SPDX-License-Identifier: MIT
#include "encode/dictionary.h"
#include <errno.h>

// A range begins no later than here only to save its hottest caller an addition. Readers count on
// this number.
#define BEGIN_MOST (UINT64_C(1) << 40)

// Scratch of one build: which function waits for which. Circles of silent edges are one: the
// function that stands for them.
struct build {
    const struct graph *graph;
    const struct dictionary_plan *plan;
    struct silent_edges *silent;
    uint32_t *waiting; // by function: incoming edges whose caller is not done
    uint32_t *first;   // by function: where its outgoing edges begin in `out`
    uint32_t *out;     // those that wait for it
    uint32_t *ready;   // functions in topological order
    uint64_t limit;    // most contexts that a function may have
    uint64_t few;      // contexts that cold edges may make
    uint32_t ready_count, circles;
};

static uint32_t same(const struct build *build, uint32_t function)
{
    return silent_same(build->silent, function);
}

// The n-th dependency: first the edges of the plan, then the silent ones. False: there is none.
static bool dependency(const struct build *build, uint32_t number, uint32_t *from, uint32_t *to)
{
    const struct dictionary_plan *plan = build->plan;
    const uint32_t total = plan->first[plan->functions];
    const uint32_t edge = number < total ? plan->edges[number] : number - total;
    const struct graph_edge *one = graph_edge(build->graph, edge);
    if (number >= total &&
        (!edge_is_silent(one) || one->caller >= plan->functions || one->callee >= plan->functions))
        return false;
    *from = same(build, one->caller);
    *to = same(build, one->callee);
    return number < total || *from != *to;
}

static uint32_t dependencies(const struct build *build)
{
    const struct dictionary_plan *plan = build->plan;
    return plan->first[plan->functions] + (build->silent->same ? plan->edges_known : 0);
}

static void list_outgoing(struct build *build)
{
    const uint32_t functions = build->plan->functions, total = dependencies(build);
    uint32_t sum = 0, from, to;
    for (uint32_t i = 0; i < total; i++) {
        if (!dependency(build, i, &from, &to))
            continue;
        build->first[from + 1]++;
        build->waiting[to]++;
    }
    for (uint32_t f = 0; f <= functions; f++)
        sum = build->first[f] += sum;
    // Filled from the back, so that first[f + 1] ends where f begins.
    for (uint32_t i = total; i-- > 0;)
        if (dependency(build, i, &from, &to))
            build->out[--build->first[from + 1]] = to;
    build->first[functions + 1] = sum;
    for (uint32_t f = 0; f < functions; f++) {
        if (same(build, f) != f)
            continue;
        build->circles++;
        if (build->waiting[f] == 0)
            build->ready[build->ready_count++] = f;
    }
}

// After list_outgoing() the edges of f lie in [first[f + 1], first[f + 2]).
static void sort_topologically(struct build *build)
{
    for (uint32_t done = 0; done < build->ready_count; done++) {
        const uint32_t function = build->ready[done];
        for (uint32_t i = build->first[function + 1]; i < build->first[function + 2]; i++) {
            if (--build->waiting[build->out[i]] == 0)
                build->ready[build->ready_count++] = build->out[i];
        }
    }
}

static struct dictionary_function *function_of(struct dictionary *dictionary, uint32_t function)
{
    return (struct dictionary_function *)&dictionary->function[function];
}

static void add_step(struct dictionary *dictionary, uint32_t function, uint64_t start,
                     uint32_t caller, uint32_t edge)
{
    struct dictionary_function *into = function_of(dictionary, function);
    ((struct dictionary_step *)dictionary->step)[into->first + into->count++] =
        (struct dictionary_step){start, caller, edge};
}

// Numbers the calls of a function from `own` on.
static int number(const struct build *build, struct dictionary *dictionary, uint32_t function)
{
    const struct dictionary_plan *plan = build->plan;
    struct dictionary_function *into = function_of(dictionary, function);
    for (uint32_t i = plan->first[function]; i < plan->first[function + 1]; i++) {
        const struct graph_edge *edge = graph_edge(build->graph, plan->edges[i]);
        const struct dictionary_function *from = &dictionary->function[edge->caller];
        const uint64_t more = from->contexts - from->begin, before = into->own_end - into->own;
        // Few contexts do no harm, however cold.
        if (into->calls > 0 && edge->heat < plan->cold &&
            (before > build->few || more > build->few - before)) {
            dictionary->left_out++;
            continue;
        }
        if (into->own_end > build->limit || more > build->limit - into->own_end ||
            into->has_no_own) {
            if (plan->overflow == OVERFLOW_FAILS)
                return -EOVERFLOW;
            dictionary->overflows++;
            continue;
        }
        add_step(dictionary, function, into->own_end, edge->caller, plan->edges[i]);
        into->calls++;
        into->own_end += more;
    }
    dictionary->steps += into->calls;
    return 0;
}

// Where the range of a function's hottest caller begins.
static uint64_t begin_of_caller(const struct build *build, const struct dictionary *dictionary,
                                uint32_t function)
{
    const struct dictionary_plan *plan = build->plan;
    const uint32_t first = plan->first[function];
    if (plan->ranges != RANGES_FROM_BEGIN || first == plan->first[function + 1])
        return 0;
    const uint32_t caller = graph_edge(build->graph, plan->edges[first])->caller;
    const uint64_t begin = dictionary->function[caller].begin;
    return begin <= BEGIN_MOST ? begin : 0;
}

// Where the ids of a function begin, once all of its parts have their places.
static uint64_t begin_of(const struct dictionary *dictionary,
                         const struct dictionary_function *into)
{
    if (dictionary->ranges != RANGES_FROM_BEGIN || into->reserved || into->has_no_own)
        return 0;
    uint64_t begin = into->own_end > into->own || into->count == 0 ? into->own : UINT64_MAX;
    for (uint32_t i = into->first; i < into->first + into->count; i++)
        if (dictionary->step[i].start < begin)
            begin = dictionary->step[i].start;
    return begin;
}

// Finds a place for the part of a function where those that it leads to have room, and tells them.
static int settle(const struct build *build, struct dictionary *dictionary, uint32_t function)
{
    const struct dictionary_plan *plan = build->plan;
    struct dictionary_function *into = function_of(dictionary, function);
    const uint32_t reached = silent_reach(build->silent, function);
    const uint32_t *list = build->silent->list;
    uint64_t start = into->contexts; // so far: what leads here
    for (uint32_t i = 0; i < reached; i++)
        if (dictionary->function[list[i]].contexts > start)
            start = dictionary->function[list[i]].contexts;
    const bool related = reached > 0 || start > 0;
    if (related && start >= build->limit && !into->has_no_own) {
        if (plan->overflow == OVERFLOW_FAILS)
            return -EOVERFLOW;
        dictionary->homeless++;
        into->has_no_own = plan->has_no_own[function] = true;
    }
    const uint64_t wanted = begin_of_caller(build, dictionary, function);
    start = start < wanted ? wanted : start;
    into->own = into->own_end = into->has_no_own ? 0 : start;
    int status = number(build, dictionary, function);
    if (status < 0 || into->has_no_own)
        return status;
    if (into->own_end == into->own && related)
        into->own_end++; // for those who push
    if (into->own_end > into->contexts)
        into->contexts = into->own_end;
    for (uint32_t i = 0; i < reached; i++) {
        add_step(dictionary, list[i], into->own, function, GRAPH_NONE);
        function_of(dictionary, list[i])->contexts = into->own_end;
    }
    return 0;
}

// A circle whose callers, and those who lead there silently, are all done.
static int settle_circle(const struct build *build, struct dictionary *dictionary, uint32_t head)
{
    const struct silent_edges *silent = build->silent;
    int status = 0;
    for (uint32_t f = head; f != GRAPH_NONE && status == 0;
         f = silent->same ? silent->next[f] : GRAPH_NONE)
        status = settle(build, dictionary, f);
    for (uint32_t f = head; f != GRAPH_NONE; f = silent->same ? silent->next[f] : GRAPH_NONE) {
        struct dictionary_function *into = function_of(dictionary, f);
        if (into->contexts == 0)
            into->contexts = 1;
        into->begin = begin_of(dictionary, into);
        if (into->contexts - 1 > dictionary->max_id)
            dictionary->max_id = into->contexts - 1;
    }
    return status;
}

// How many steps each function has room for goes to `room`; returns the sum.
static uint64_t count_steps(const struct dictionary_plan *plan, struct silent_edges *silent,
                            uint32_t *room)
{
    uint64_t sum = plan->first[plan->functions];
    for (uint32_t f = 0; f < plan->functions; f++)
        room[f] += plan->first[f + 1] - plan->first[f];
    for (uint32_t f = 0; f < plan->functions && silent->same; f++) {
        const uint32_t reached = silent_reach(silent, f);
        for (uint32_t i = 0; i < reached; i++)
            room[silent->list[i]]++;
        sum += reached;
    }
    return sum;
}

static struct dictionary *allocate(const struct graph *graph, const struct dictionary_plan *plan,
                                   const uint32_t *room, uint64_t total)
{
    size_t functions = (size_t)plan->functions * sizeof(struct dictionary_function);
    size_t steps = (size_t)total * sizeof(struct dictionary_step);
    size_t head = (sizeof(struct dictionary) + 15) & ~(size_t)15;
    struct dictionary *dictionary = pool_map(graph->pool, head + functions + steps);
    if (!dictionary)
        return NULL;
    dictionary->stamp = plan->stamp;
    dictionary->ranges = plan->ranges;
    dictionary->functions = plan->functions;
    dictionary->edges = plan->edges_known;
    dictionary->bytes = head + functions + steps;
    dictionary->function = (void *)((char *)dictionary + head);
    dictionary->step = (void *)((char *)dictionary + head + functions);
    uint32_t sum = 0;
    for (uint32_t f = 0; f < plan->functions; sum += room[f++]) {
        struct dictionary_function *into = function_of(dictionary, f);
        into->first = sum;
        into->reserved = plan->reserved && plan->reserved[f];
        into->has_no_own = plan->has_no_own && plan->has_no_own[f];
        into->contexts = into->reserved;
    }
    return dictionary;
}

static int build_all(struct build *build, struct dictionary *dictionary)
{
    list_outgoing(build);
    sort_topologically(build);
    int status = build->ready_count < build->circles ? -ELOOP : 0;
    for (uint32_t i = 0; status == 0 && i < build->ready_count; i++)
        status = settle_circle(build, dictionary, build->ready[i]);
    return status;
}

int dictionary_build(const struct graph *graph, const struct dictionary_plan *plan,
                     struct dictionary **result)
{
    struct build build = {.graph = graph, .plan = plan, .silent = plan->silent};
    const size_t words = (size_t)plan->functions * 4 + 2 + dependencies(&build);
    uint32_t *scratch = pool_map(graph->pool, words * sizeof *scratch);
    if (!scratch)
        return -ENOMEM;
    build.waiting = scratch;
    build.ready = build.waiting + plan->functions;
    build.first = build.ready + plan->functions;
    build.out = build.first + plan->functions + 2;
    build.limit = UINT64_C(1) << (plan->id_bits - 1);
    build.few = UINT64_C(1) << (plan->id_bits / 2);
    uint32_t *room = build.out + dependencies(&build);
    const uint64_t steps = count_steps(plan, plan->silent, room);
    struct dictionary *dictionary = steps < UINT32_MAX ? allocate(graph, plan, room, steps) : NULL;
    int status = dictionary ? build_all(&build, dictionary) : -ENOMEM;
    pool_unmap(graph->pool, scratch, words * sizeof *scratch);
    if (status == 0)
        *result = dictionary;
    else
        dictionary_free(graph, dictionary);
    return status;
}

void dictionary_free(const struct graph *graph, struct dictionary *dictionary)
{
    if (dictionary)
        pool_unmap(graph->pool, dictionary, dictionary->bytes);
}
