// SPDX-License-Identifier: MIT
#include "encode/dictionary.h"
#include <errno.h>

// Scratch of one build: the encoded edges by caller, and how many are still awaited by a function.
struct build {
    const struct graph *graph;
    const struct dictionary_plan *plan;
    uint32_t *waiting; // by function: incoming edges whose caller is not done
    uint32_t *first;   // by function: where its outgoing edges begin in `out`
    uint32_t *out;     // callees
    uint32_t *ready;   // functions in topological order
    uint64_t limit;    // most contexts that a function may have
    uint64_t few;      // contexts that cold edges may make
    uint32_t ready_count;
};

static void list_outgoing(struct build *build)
{
    const struct dictionary_plan *plan = build->plan;
    uint32_t total = plan->first[plan->functions], sum = 0;
    for (uint32_t i = 0; i < total; i++)
        build->first[graph_edge(build->graph, plan->edges[i])->caller + 1]++;
    for (uint32_t f = 0; f <= plan->functions; f++)
        sum = build->first[f] += sum;
    // Filled from the back, so that first[f] ends where f begins.
    for (uint32_t i = total; i-- > 0;) {
        const struct graph_edge *edge = graph_edge(build->graph, plan->edges[i]);
        build->out[--build->first[edge->caller + 1]] = edge->callee;
    }
    for (uint32_t f = 0; f < plan->functions; f++) {
        build->waiting[f] = plan->first[f + 1] - plan->first[f];
        if (build->waiting[f] == 0)
            build->ready[build->ready_count++] = f;
    }
}

// After list_outgoing() the edges of f lie in [first[f + 1], first[f + 2]), the last ones to the
// end.
static void sort_topologically(struct build *build)
{
    const struct dictionary_plan *plan = build->plan;
    uint32_t total = plan->first[plan->functions];
    for (uint32_t done = 0; done < build->ready_count; done++) {
        uint32_t function = build->ready[done];
        uint32_t end = function + 1 < plan->functions ? build->first[function + 2] : total;
        for (uint32_t i = build->first[function + 1]; i < end; i++) {
            if (--build->waiting[build->out[i]] == 0)
                build->ready[build->ready_count++] = build->out[i];
        }
    }
}

// Numbers the edges into a function whose callers are all done.
static int number(const struct build *build, struct dictionary *dictionary, uint32_t function)
{
    const struct dictionary_plan *plan = build->plan;
    struct dictionary_function *functions = (struct dictionary_function *)dictionary->function;
    struct dictionary_step *steps = (struct dictionary_step *)dictionary->step;
    struct dictionary_function *into = &functions[function];
    into->first = plan->first[function];
    into->contexts = plan->reserved && plan->reserved[function];
    for (uint32_t i = plan->first[function]; i < plan->first[function + 1]; i++) {
        const struct graph_edge *edge = graph_edge(build->graph, plan->edges[i]);
        uint32_t caller = edge->caller;
        uint64_t more = functions[caller].contexts;
        // Few contexts do no harm, however cold.
        if (into->count > 0 && edge->heat < plan->cold &&
            (into->contexts > build->few || more > build->few - into->contexts))
            continue;
        if (more > build->limit - into->contexts) {
            if (plan->overflow == OVERFLOW_FAILS)
                return -EOVERFLOW;
            dictionary->overflows++;
            continue;
        }
        steps[into->first + into->count++] =
            (struct dictionary_step){into->contexts, caller, plan->edges[i]};
        into->contexts += more;
    }
    dictionary->steps += into->count;
    if (into->contexts == 0)
        into->contexts = 1;
    if (into->contexts - 1 > dictionary->max_id)
        dictionary->max_id = into->contexts - 1;
    return 0;
}

static struct dictionary *allocate(const struct graph *graph, const struct dictionary_plan *plan)
{
    size_t functions = (size_t)plan->functions * sizeof(struct dictionary_function);
    size_t steps = (size_t)plan->first[plan->functions] * sizeof(struct dictionary_step);
    size_t head = (sizeof(struct dictionary) + 15) & ~(size_t)15;
    struct dictionary *dictionary = pool_map(graph->pool, head + functions + steps);
    if (!dictionary)
        return NULL;
    dictionary->stamp = plan->stamp;
    dictionary->functions = plan->functions;
    dictionary->edges = plan->edges_known;
    dictionary->bytes = head + functions + steps;
    dictionary->function = (void *)((char *)dictionary + head);
    dictionary->step = (void *)((char *)dictionary + head + functions);
    return dictionary;
}

int dictionary_build(const struct graph *graph, const struct dictionary_plan *plan,
                     struct dictionary **result)
{
    uint32_t total = plan->first[plan->functions];
    size_t words = (size_t)plan->functions * 3 + 2 + total;
    uint32_t *scratch = pool_map(graph->pool, words * sizeof *scratch);
    struct dictionary *dictionary = allocate(graph, plan);
    int status = scratch && dictionary ? 0 : -ENOMEM;
    if (status == 0) {
        struct build build = {.graph = graph, .plan = plan};
        build.waiting = scratch;
        build.ready = build.waiting + plan->functions;
        build.first = build.ready + plan->functions;
        build.out = build.first + plan->functions + 2;
        build.limit = UINT64_C(1) << (plan->id_bits - 1);
        build.few = UINT64_C(1) << (plan->id_bits / 2);
        list_outgoing(&build);
        sort_topologically(&build);
        if (build.ready_count < plan->functions)
            status = -ELOOP;
        for (uint32_t i = 0; status == 0 && i < plan->functions; i++)
            status = number(&build, dictionary, build.ready[i]);
    }
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
