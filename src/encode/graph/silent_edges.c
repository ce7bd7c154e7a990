// SPDX-License-Identifier: MIT
#include "encode/graph/silent_edges.h"
#include <errno.h>

static bool is_known(const struct silent_edges *silent, const struct graph_edge *edge)
{
    return edge_is_silent(edge) && edge->caller < silent->functions &&
           edge->callee < silent->functions;
}

// The silent edges by caller.
static void list_edges(struct silent_edges *silent)
{
    const struct graph *graph = silent->graph;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < silent->edges; i++)
        if (is_known(silent, graph_edge(graph, i)))
            silent->first[graph_edge(graph, i)->caller + 1]++;
    for (uint32_t f = 0; f <= silent->functions; f++)
        sum = silent->first[f] += sum;
    // Each list is filled from its end, and then begins where it should.
    for (uint32_t i = silent->edges; i-- > 0;) {
        const struct graph_edge *edge = graph_edge(graph, i);
        if (is_known(silent, edge))
            silent->to[--silent->first[edge->caller + 1]] = edge->callee;
    }
    for (uint32_t f = 0; f < silent->functions; f++)
        silent->first[f] = silent->first[f + 1];
    silent->first[silent->functions] = sum;
}

// Tarjan's search for circles, without recursion.
struct search {
    uint32_t *order, *low; // by function: when it was met, from 1; the oldest that it leads to
    uint32_t *path, *at;   // functions that are being searched, and the next edge of each
    uint32_t *open, opened;
    uint32_t met;
};

// All that was met since the function, and leads back to it.
static void close_circle(struct silent_edges *silent, struct search *search, uint32_t function)
{
    uint32_t other, before = GRAPH_NONE;
    do {
        other = search->open[--search->opened];
        silent->same[other] = function;
        silent->next[other] = before;
        before = other;
        search->low[other] = UINT32_MAX; // is in no circle that is still open
    } while (other != function);
}

static void search_from(struct silent_edges *silent, struct search *search, uint32_t start)
{
    uint32_t depth = 0;
    search->path[depth] = start;
    for (;;) {
        const uint32_t function = search->path[depth];
        if (!search->order[function]) {
            search->order[function] = search->low[function] = ++search->met;
            search->at[depth] = silent->first[function];
            search->open[search->opened++] = function;
        }
        if (search->at[depth] < silent->first[function + 1]) {
            const uint32_t next = silent->to[search->at[depth]];
            if (!search->order[next]) {
                search->path[++depth] = next;
                continue;
            }
            search->at[depth]++;
            // A function that was searched below this one, too, passes on what it found.
            if (search->low[next] < search->low[function])
                search->low[function] = search->low[next];
            continue;
        }
        if (search->low[function] == search->order[function])
            close_circle(silent, search, function);
        if (depth-- == 0)
            return;
    }
}

static int find_circles(struct silent_edges *silent)
{
    const uint32_t functions = silent->functions;
    const size_t bytes = (size_t)functions * 5 * sizeof(uint32_t);
    uint32_t *memory = pool_map(silent->graph->pool, bytes);
    if (!memory)
        return -ENOMEM;
    struct search search = {.order = memory,
                            .low = memory + functions,
                            .path = memory + 2 * (size_t)functions,
                            .at = memory + 3 * (size_t)functions,
                            .open = memory + 4 * (size_t)functions};
    for (uint32_t f = 0; f < functions; f++)
        if (!search.order[f])
            search_from(silent, &search, f);
    pool_unmap(silent->graph->pool, memory, bytes);
    return 0;
}

int silent_init(struct silent_edges *silent, const struct graph *graph, uint32_t functions,
                uint32_t edges)
{
    *silent = (struct silent_edges){.graph = graph, .functions = functions, .edges = edges};
    uint32_t count = 0;
    for (uint32_t i = 0; i < edges && graph->silent_count; i++)
        count += is_known(silent, graph_edge(graph, i));
    if (count == 0)
        return 0;
    silent->bytes = ((size_t)functions * 5 + 1 + count) * sizeof(uint32_t);
    uint32_t *memory = pool_map(graph->pool, silent->bytes);
    if (!memory)
        return -ENOMEM;
    silent->same = memory;
    silent->next = silent->same + functions;
    silent->list = silent->next + functions;
    silent->mark = silent->list + functions;
    silent->first = silent->mark + functions;
    silent->to = silent->first + functions + 1;
    list_edges(silent);
    int status = find_circles(silent);
    if (status < 0)
        silent_free(silent);
    return status;
}

void silent_free(struct silent_edges *silent)
{
    pool_unmap(silent->graph->pool, silent->same, silent->bytes);
    silent->same = NULL;
}

uint32_t silent_reach(struct silent_edges *silent, uint32_t function)
{
    if (!silent->same || silent->first[function] == silent->first[function + 1])
        return 0;
    uint32_t count = 0;
    silent->mark[function] = ++silent->last_mark;
    // First what the function itself leads to, then what each of these does.
    for (uint32_t done = 0, from = function;; from = silent->list[done++]) {
        for (uint32_t i = silent->first[from]; i < silent->first[from + 1]; i++) {
            const uint32_t next = silent->to[i];
            if (silent->mark[next] == silent->last_mark)
                continue;
            silent->mark[next] = silent->last_mark;
            silent->list[count++] = next;
        }
        if (done == count)
            return count;
    }
}
