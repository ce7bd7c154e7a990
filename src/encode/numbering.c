// SPDX-License-Identifier: MIT
#include "encode/numbering.h"
#include "encode/acyclic.h"
#include "encode/ways.h"
#include <errno.h>

static struct code *code_at(struct numbering *numbering, uint32_t edge)
{
    return series_at(&numbering->codes, edge);
}

static bool *leaves_at(struct numbering *numbering, uint32_t function)
{
    return series_at(&numbering->leaves, function);
}

static bool reach(struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    struct pool *pool = graph->pool;
    return (graph->edge_count == 0 ||
            series_reach(&numbering->codes, pool, graph->edge_count - 1)) &&
           (graph->function_count == 0 ||
            series_reach(&numbering->leaves, pool, graph->function_count - 1));
}

// Looks at the edges into a function that is known to leave: calls must save by now, and functions
// that leave by a tail call to it are put on the list of work. Returns the new head of that.
static uint32_t spread_leaving(struct numbering *numbering, uint32_t function, uint32_t work)
{
    const struct graph *graph = numbering->graph;
    for (uint32_t i = graph_function(graph, function)->first_in; i != GRAPH_NONE;
         i = graph_edge(graph, i)->next_in) {
        const struct graph_edge *edge = graph_edge(graph, i);
        if (!edge_is_tail(edge)) {
            struct code *code = code_at(numbering, i);
            if (i < numbering->covered && !edge_is_silent(edge) && !code->save)
                code->save = numbering->saves_changed = true;
        } else if (!*leaves_at(numbering, edge->caller)) {
            *leaves_at(numbering, edge->caller) = true;
            graph_function(graph, edge->caller)->work = work;
            work = edge->caller;
        }
    }
    return work;
}

// Marks a function, and all that leave by a tail call to it: what they leave behind is restored by
// those who called them.
static void mark_leaving(struct numbering *numbering, uint32_t function)
{
    if (*leaves_at(numbering, function))
        return;
    *leaves_at(numbering, function) = true;
    graph_function(numbering->graph, function)->work = GRAPH_NONE;
    for (uint32_t work = function; work != GRAPH_NONE;) {
        uint32_t next = graph_function(numbering->graph, work)->work;
        work = spread_leaving(numbering, work, next);
    }
}

static uint64_t heat_into(const struct graph *graph, uint32_t function)
{
    uint64_t heat = 0;
    for (uint32_t i = graph_function(graph, function)->first_in; i != GRAPH_NONE;
         i = graph_edge(graph, i)->next_in)
        heat += graph_edge(graph, i)->heat;
    return heat;
}

// From those edges and functions on.
static void find_leaving(struct numbering *numbering, uint32_t first, uint32_t first_function)
{
    const struct graph *graph = numbering->graph;
    for (uint32_t i = first; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        const struct code *code = code_at(numbering, i);
        if (!edge_is_tail(edge))
            continue;
        // An indirect jump may go somewhere new, and push, at any time.
        if (code->action != ACTION_ADD || code->add != 0 || edge->kind == EDGE_TAIL_INDIRECT ||
            *leaves_at(numbering, edge->callee))
            mark_leaving(numbering, edge->caller);
    }
    uint64_t cold = numbering->options.save_unseen_tails;
    for (uint32_t i = first_function; cold && i < graph->function_count; i++) {
        if (graph_function(graph, i)->unseen_tails > 0 && heat_into(graph, i) < cold)
            mark_leaving(numbering, i);
    }
}

// Calls whose way back cannot know what the way there did, whatever code there is.
static bool must_save(struct numbering *numbering, const struct graph_edge *edge)
{
    return !edge_is_tail(edge) && !edge_is_silent(edge) &&
           (edge->kind == EDGE_OUTSIDE || *leaves_at(numbering, edge->callee));
}

// One piece of code serves all targets of a call that are looked up in a hash table: on the way
// back it does not know which one it was.
static bool is_hashed(const struct numbering *numbering, const struct graph_edge *edge)
{
    return edge->kind == EDGE_INDIRECT &&
           graph_site(numbering->graph, edge->site)->targets > numbering->options.chain_targets;
}

// What is pushed begins a part of the path, with the first id of the function called.
static void begin_part(struct numbering *numbering, uint32_t edge)
{
    struct code *code = code_at(numbering, edge);
    if (code->action != ACTION_ADD)
        code->add =
            dictionary_own(numbering->dictionary, graph_edge(numbering->graph, edge)->callee);
}

static void write_codes(struct numbering *numbering, const bool *taken)
{
    const struct graph *graph = numbering->graph;
    const struct dictionary *dictionary = numbering->dictionary;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        if (edge->flags & EDGE_LOOPS)
            code_at(numbering, i)->action = ACTION_LOOP;
        else if (edge_is_silent(edge))
            code_at(numbering, i)->action = ACTION_ADD;
        else if (!taken[i] && !(edge->flags & EDGE_UNENCODED) && edge->kind != EDGE_OUTSIDE)
            code_at(numbering, i)->action = ACTION_REPEAT;
        numbering->loops += (edge->flags & EDGE_LOOPS) != 0;
        numbering->back += code_at(numbering, i)->action == ACTION_REPEAT;
        numbering->cut += taken[i]; // those that were not cut are taken off below
    }
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        for (uint32_t i = into->first; i < into->first + into->count; i++) {
            const struct dictionary_step *step = &dictionary->step[i];
            if (step->edge == GRAPH_NONE)
                continue;
            *code_at(numbering, step->edge) =
                (struct code){.add = step->start, .action = ACTION_ADD};
            numbering->encoded++;
            numbering->zero += step->start == 0;
            numbering->cut--;
        }
    }
    numbering->covered = graph->edge_count;
    numbering->covered_functions = graph->function_count;
    numbering->covered_roots = graph->root_count;
    find_leaving(numbering, 0, 0);
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        code_at(numbering, i)->save = must_save(numbering, edge) || is_hashed(numbering, edge);
        begin_part(numbering, i);
    }
}

// What a numbering needs while it is made.
struct scratch {
    uint32_t *sorted; // edges from hot to cold; at last by callee, in the order of their numbers
    uint32_t *first;  // by function
    uint32_t *other;
    bool *taken;      // by edge
    bool *reserved;   // by function
    bool *has_no_own; // by function
    struct silent silent;
    void *memory;
    size_t bytes;
};

static bool scratch_init(struct scratch *scratch, const struct graph *graph)
{
    size_t functions = graph->function_count, edges = graph->edge_count;
    scratch->bytes = (edges * 2 + functions + 2) * sizeof(uint32_t) + edges + 2 * functions;
    scratch->memory = pool_map(graph->pool, scratch->bytes);
    scratch->sorted = scratch->memory;
    if (!scratch->memory)
        return false;
    scratch->other = scratch->sorted + edges;
    scratch->first = scratch->other + edges;
    scratch->taken = (bool *)(scratch->first + functions + 2);
    scratch->reserved = scratch->taken + edges;
    scratch->has_no_own = scratch->reserved + functions;
    return true;
}

static bool is_candidate(const struct graph_edge *edge)
{
    return edge->kind != EDGE_OUTSIDE && !edge_is_silent(edge) &&
           !(edge->flags & (EDGE_LOOPS | EDGE_UNENCODED));
}

// A root begins with 0: where it leads to silently that must be its own.
static void reserve_roots(const struct graph *graph, struct scratch *scratch)
{
    for (uint32_t f = 0; f < graph->function_count && scratch->silent.same; f++) {
        if (!graph_function(graph, f)->root)
            continue;
        const uint32_t reached = silent_reach(&scratch->silent, f);
        scratch->reserved[f] = scratch->reserved[f] || reached > 0;
        for (uint32_t i = 0; i < reached; i++)
            scratch->reserved[scratch->silent.list[i]] = true;
    }
}

static int choose_edges(const struct graph *graph, struct scratch *scratch, uint32_t *count)
{
    struct acyclic acyclic;
    int status = acyclic_init(&acyclic, graph, &scratch->silent);
    for (uint32_t i = 0; status == 0 && i < graph->edge_count; i++) {
        if (is_candidate(graph_edge(graph, i)))
            scratch->sorted[(*count)++] = i;
    }
    sort_by_heat(graph, scratch->sorted, *count, scratch->other);
    for (uint32_t i = 0; i < *count; i++)
        scratch->taken[scratch->sorted[i]] = acyclic_take(&acyclic, scratch->sorted[i]);
    reserve_roots(graph, scratch);
    acyclic_free(&acyclic);
    return status;
}

// Lays the edges that were taken by callee, each list still from hot to cold.
static void list_by_callee(const struct graph *graph, struct scratch *scratch, uint32_t count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scratch->taken[scratch->sorted[i]])
            scratch->first[graph_edge(graph, scratch->sorted[i])->callee + 1]++;
    }
    for (uint32_t f = 0; f <= graph->function_count; f++)
        sum = scratch->first[f] += sum;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t edge = scratch->sorted[i];
        if (scratch->taken[edge])
            scratch->other[scratch->first[graph_edge(graph, edge)->callee]++] = edge;
    }
    // Each list moved its begin to its end, which is where the next one begins.
    for (uint32_t f = graph->function_count; f > 0; f--)
        scratch->first[f] = scratch->first[f - 1];
    scratch->first[0] = 0;
}

// What the edges of a dictionary are worth: what is missing is pushed each time. Even an edge that
// no sample has met runs now and then.
static uint64_t worth(const struct graph *graph, const struct dictionary *dictionary)
{
    uint64_t sum = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        for (uint32_t i = into->first; i < into->first + into->count; i++)
            if (dictionary->step[i].edge != GRAPH_NONE)
                sum += 16 * graph_edge(graph, dictionary->step[i].edge)->heat + 1;
    }
    return sum;
}

// The lists of the edges that have a number.
static void keep_lists(const struct dictionary *dictionary, struct scratch *scratch)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        scratch->first[f] = count;
        for (uint32_t i = into->first; i < into->first + into->count; i++)
            if (dictionary->step[i].edge != GRAPH_NONE)
                scratch->other[count++] = dictionary->step[i].edge;
    }
    scratch->first[dictionary->functions] = count;
    for (uint32_t f = 0; f < dictionary->functions; f++)
        scratch->has_no_own[f] = dictionary->function[f].has_no_own;
}

// Where functions have no ids of their own, whoever leads on from them comes with the id 0.
static void reserve_targets(const struct dictionary *dictionary, struct scratch *scratch)
{
    const struct silent *silent = &scratch->silent;
    for (uint32_t i = 0; i < silent->first[dictionary->functions]; i++)
        scratch->reserved[silent->to[i]] = true;
}

// Builds it again until it follows from its lists alone, as for whoever reads them.
static int settle(const struct graph *graph, struct dictionary_plan *plan, struct scratch *scratch,
                  struct dictionary **result)
{
    plan->cold = 0;
    while ((*result)->overflows || (*result)->left_out || (*result)->homeless) {
        keep_lists(*result, scratch);
        if ((*result)->homeless)
            reserve_targets(*result, scratch);
        dictionary_free(graph, *result);
        *result = NULL;
        int status = dictionary_build(graph, plan, result);
        if (status < 0)
            return status;
    }
    return 0;
}

// Where ids overflow, the function at which they do is only the last straw. Leaving out cold edges
// everywhere may keep more of the hot ones: tried with more and more heat, the best is taken.
static int build(const struct graph *graph, struct dictionary_plan *plan,
                 struct dictionary **result)
{
    int status = dictionary_build(graph, plan, result);
    if (status < 0)
        return status;
    bool overflows = (*result)->overflows > 0;
    for (plan->cold = 1; overflows && plan->cold < UINT64_C(1) << 62; plan->cold *= 2) {
        struct dictionary *other;
        for (uint32_t f = 0; f < plan->functions; f++)
            plan->has_no_own[f] = false;
        if (dictionary_build(graph, plan, &other) < 0)
            break; // what there is will do
        overflows = other->overflows > 0;
        bool better = worth(graph, other) > worth(graph, *result);
        dictionary_free(graph, better ? *result : other);
        if (better)
            *result = other;
        else if (plan->cold > 1)
            break;
    }
    return 0;
}

static void numbering_init(struct numbering *numbering, const struct graph *graph,
                           const struct numbering_options *options)
{
    *numbering = (struct numbering){.graph = graph, .options = *options};
    numbering->codes.size = sizeof(struct code);
    numbering->leaves.size = sizeof(bool);
}

int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options)
{
    numbering_init(numbering, graph, options);
    struct scratch scratch = {.silent = {.graph = graph}};
    uint32_t count = 0;
    if (!scratch_init(&scratch, graph))
        return -ENOMEM;
    int status = reach(numbering) ? 0 : -ENOMEM;
    if (status == 0)
        status = silent_init(&scratch.silent, graph, graph->function_count, graph->edge_count);
    if (status == 0)
        status = choose_edges(graph, &scratch, &count);
    if (status == 0) {
        list_by_callee(graph, &scratch, count);
        struct dictionary_plan plan = {.stamp = options->stamp,
                                       .functions = graph->function_count,
                                       .edges_known = graph->edge_count,
                                       .first = scratch.first,
                                       .edges = scratch.other,
                                       .reserved = scratch.reserved,
                                       .has_no_own = scratch.has_no_own,
                                       .silent = &scratch.silent,
                                       .id_bits = options->id_bits,
                                       .overflow = OVERFLOW_CUTS};
        status = build(graph, &plan, &numbering->dictionary);
        if (status == 0)
            status = settle(graph, &plan, &scratch, &numbering->dictionary);
    }
    if (status == 0)
        write_codes(numbering, scratch.taken);
    silent_free(&scratch.silent);
    pool_unmap(graph->pool, scratch.memory, scratch.bytes);
    if (status < 0)
        numbering_free(numbering);
    return status;
}

int numbering_start(struct numbering *numbering, const struct graph *graph,
                    const struct numbering_options *options)
{
    numbering_init(numbering, graph, options);
    uint32_t first = 0;
    struct silent silent = {.graph = graph};
    struct dictionary_plan plan = {
        .stamp = options->stamp, .first = &first, .id_bits = options->id_bits, .silent = &silent};
    int status = dictionary_build(graph, &plan, &numbering->dictionary);
    enum cover cover;
    return status < 0 ? status : numbering_cover(numbering, &cover);
}

// Whether an id 0, of a function that nobody has numbered, means nothing else in a function, or in
// those that it leads to silently.
static bool zero_is_free(const struct numbering *numbering, uint32_t function)
{
    struct ways ways = {.graph = numbering->graph, .kind = EDGE_SILENT_JUMP};
    uint32_t edges[WAYS];
    ways_from_function(&ways, function);
    ways_find(&ways, GRAPH_NONE, edges);
    for (uint32_t i = 0; i < ways.count; i++)
        if (dictionary_find(numbering->dictionary, ways.way[i].function, 0))
            return false;
    return ways.count < WAYS;
}

// Whether a silent edge that is new fits: its function is not known to the encoding, so calls of it
// push, and the id 0 that they begin with tells.
static bool silent_fits(const struct numbering *numbering, const struct graph_edge *edge)
{
    return edge->caller >= numbering->dictionary->functions &&
           zero_is_free(numbering, edge->callee);
}

// Whether a path can begin in a function with the id 0.
static bool root_fits(const struct numbering *numbering, uint32_t function)
{
    const struct dictionary *dictionary = numbering->dictionary;
    if (function >= dictionary->functions)
        return zero_is_free(numbering, function);
    const struct dictionary_function *root = &dictionary->function[function];
    return root->reserved || (root->own == 0 && !root->has_no_own) ||
           zero_is_free(numbering, function);
}

static bool roots_fit(struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    bool fit = true;
    for (uint32_t f = 0; f < graph->function_count && numbering->covered_roots < graph->root_count;
         f++)
        fit = fit && (!graph_function(graph, f)->root || root_fits(numbering, f));
    numbering->covered_roots = graph->root_count;
    return fit;
}

int numbering_cover(struct numbering *numbering, enum cover *cover)
{
    const struct graph *graph = numbering->graph;
    *cover = COVER_FITS;
    if (!reach(numbering))
        return -ENOMEM;
    bool tails = numbering->covered_functions < graph->function_count &&
                 numbering->options.save_unseen_tails;
    const bool asked = !numbering->options.ignores_stale;
    bool stale = asked && !roots_fit(numbering);
    for (uint32_t i = numbering->covered; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        tails |= edge_is_tail(edge);
        stale |= asked && edge_is_silent(edge) && !silent_fits(numbering, edge);
        if (edge->flags & EDGE_LOOPS)
            code_at(numbering, i)->action = ACTION_LOOP;
        else if (edge_is_silent(edge))
            code_at(numbering, i)->action = ACTION_ADD;
    }
    numbering->saves_changed = false;
    if (tails)
        find_leaving(numbering, numbering->covered, numbering->covered_functions);
    if (stale)
        *cover = COVER_STALE;
    else if (numbering->saves_changed)
        *cover = COVER_SAVES;
    // All new targets of an indirect call go one way, too.
    for (uint32_t i = numbering->covered; i < graph->edge_count; i++) {
        const struct graph_edge *edge = graph_edge(graph, i);
        code_at(numbering, i)->save = edge->kind == EDGE_INDIRECT || must_save(numbering, edge);
        begin_part(numbering, i);
    }
    numbering->covered = graph->edge_count;
    numbering->covered_functions = graph->function_count;
    return 0;
}

void numbering_free(struct numbering *numbering)
{
    series_free(&numbering->codes, numbering->graph->pool);
    series_free(&numbering->leaves, numbering->graph->pool);
}

bool numbering_plain(const struct numbering *numbering, uint32_t index)
{
    const struct graph_site *site = graph_site(numbering->graph, index);
    if (site->targets != 1 || site->first_edge >= numbering->covered ||
        (site->kind != EDGE_CALL && site->kind != EDGE_TAIL))
        return false;
    const struct code *code = numbering_code(numbering, site->first_edge);
    return code->action == ACTION_ADD && code->add == 0 && !code->save;
}
