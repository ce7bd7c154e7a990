// SPDX-License-Identifier: MIT
// The numbering of the complete call graph known beforehand (the paper's PCCE): from a profile of
// exact calls, whose contexts are all walked and weighed by their calls. Writes a line of JSON.
//
//   encode_profile PROFILE

#include "encode/decode.h"
#include "profile/profile.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

struct run {
    const struct profile *profile;
    unsigned metric; // of the calls
    struct pool pool;
    struct graph graph;
    struct numbering numbering;
    uint64_t all_calls; // of the whole profile; the others are of the contexts that were walked
    uint64_t calls, pushed, plain, zero, contexts, depth, stacked, wrong;
};

static uint64_t calls_of(const struct run *run, const struct profile_tree *tree, uint32_t node)
{
    return tree->values[(size_t)node * run->profile->metric_count + run->metric];
}

static uint32_t function_of(struct run *run, const struct profile_tree *tree, uint32_t node)
{
    const struct profile_node *at = &tree->nodes[node];
    return graph_add_function(&run->graph, at->function ? at->function : tree->start);
}

// Functions that are not followed have no nodes, as those of the loader. A call out of such a one
// has the function below as its caller, which may be any: each of them gets a site of its own.
static uint32_t add_edge(struct run *run, place_t site, uint32_t caller, uint32_t callee)
{
    const uint32_t edge = graph_add_edge(&run->graph, site, caller, callee, EDGE_CALL);
    if (edge != GRAPH_NONE)
        return edge;
    const place_t own = site + (caller + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return graph_add_edge(&run->graph, own, caller, callee, EDGE_CALL);
}

// All sites that had several targets are indirect calls; which those with one are is not known.
static void make_graph(struct run *run, uint32_t **edges)
{
    run->pool = (struct pool){.map = map, .unmap = unmap, .piece = 1 << 16};
    graph_init(&run->graph, &run->pool);
    for (unsigned t = 0; t < run->profile->tree_count; t++) {
        const struct profile_tree *tree = &run->profile->trees[t];
        edges[t] = calloc(tree->count, sizeof **edges);
        for (uint32_t i = 1; i < tree->count; i++) {
            const struct profile_node *node = &tree->nodes[i];
            edges[t][i] = GRAPH_NONE;
            if (!node->function)
                continue;
            uint32_t caller = function_of(run, tree, node->parent);
            uint32_t callee = function_of(run, tree, i);
            edges[t][i] = add_edge(run, node->site, caller, callee);
            if (edges[t][i] == GRAPH_NONE) {
                fputs("encode_profile: no memory\n", stderr);
                exit(1);
            }
            graph_edge(&run->graph, edges[t][i])->heat += calls_of(run, tree, i);
        }
    }
    for (uint32_t i = 0; i < run->graph.edge_count; i++) {
        struct graph_edge *edge = graph_edge(&run->graph, i);
        const struct graph_site *site = graph_site(&run->graph, edge->site);
        if (graph_edge(&run->graph, site->first_edge)->next_at_site != GRAPH_NONE)
            edge->kind = EDGE_INDIRECT;
    }
}

enum { DEEPEST = 1 << 16 };

static void check_context(struct run *run, struct context_state *state, const uint32_t *path,
                          uint32_t depth, uint64_t calls)
{
    static uint32_t decoded[DEEPEST];
    const struct graph_edge *last = graph_edge(&run->graph, path[depth - 1]);
    const int64_t word = numbering_word(&run->numbering, path[depth - 1]);
    context_reset(state, dictionary_root(run->numbering.dictionary, state->root));
    for (uint32_t i = 0; i < depth; i++)
        context_call(state, numbering_word(&run->numbering, path[i]),
                     dictionary_base(run->numbering.dictionary) +
                         dictionary_own(run->numbering.dictionary,
                                        graph_edge(&run->graph, path[i])->callee));
    struct encoded_context context = encoded_context_of(state, last->callee);
    int64_t count =
        context_decode(&run->graph, run->numbering.dictionary, &context, decoded, DEEPEST);
    run->wrong += count != depth || memcmp(decoded + DEEPEST - count, path, depth * 4ul) != 0;
    run->contexts++;
    run->calls += calls;
    run->depth += depth * calls;
    run->stacked += state->depth * calls;
    run->pushed += (word < 0) * calls;
    // A call of one target that adds 0 runs as it was compiled.
    const bool zero = word == 0;
    run->zero += zero * calls;
    run->plain += (zero && last->kind == EDGE_CALL) * calls;
}

static void walk_tree(struct run *run, const struct profile_tree *tree, const uint32_t *edges)
{
    static struct cc_entry stack[DEEPEST];
    static uint32_t path[DEEPEST];
    struct context_state state = {
        .stack = stack, .limit = DEEPEST, .root = function_of(run, tree, 0)};
    // Large trees: every so many contexts.
    uint32_t step = tree->count / 100000 + 1;
    for (uint32_t i = 1; i < tree->count; i++) {
        uint32_t depth = 0, at = i;
        if (edges[i] == GRAPH_NONE)
            continue;
        run->all_calls += calls_of(run, tree, i);
        if (i % step)
            continue;
        for (; tree->nodes[at].parent != PROFILE_NO_PARENT && depth < DEEPEST;
             at = tree->nodes[at].parent)
            path[DEEPEST - ++depth] = edges[at];
        if (depth < DEEPEST)
            check_context(run, &state, path + DEEPEST - depth, depth, calls_of(run, tree, i));
    }
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void measure(const char *name)
{
    struct run run = {0};
    char *error = NULL;
    struct profile *profile = profile_read(name, &error);
    if (!profile) {
        fprintf(stderr, "encode_profile: %s\n", error);
        exit(2);
    }
    run.profile = profile;
    while (run.metric < profile->metric_count &&
           !profile_counts_calls(&profile->metrics[run.metric]))
        run.metric++;
    if (run.metric == profile->metric_count) {
        fprintf(stderr, "encode_profile: %s has no calls\n", name);
        exit(2);
    }
    uint32_t **edges = calloc(profile->tree_count, sizeof *edges);
    make_graph(&run, edges);
    struct numbering_options options = {.id_bits = ID_BITS};
    if (numbering_make(&run.numbering, &run.graph, &options) < 0)
        exit(1);
    for (unsigned t = 0; t < profile->tree_count; t++)
        walk_tree(&run, &profile->trees[t], edges[t]);
    printf("{\"nodes\": %u, \"edges\": %u, \"encoded\": %u, \"back\": %u, \"cut\": %u, "
           "\"max_id\": \"%" PRIu64 "\", \"calls\": %" PRIu64 ", \"contexts\": %" PRIu64
           ", \"decoded_wrongly\": %" PRIu64 ", \"stack_depth\": %.3f, \"ccstack_depth\": %.3f, "
           "\"pushed\": %.6f, \"zero\": %.6f, \"plain\": %.6f}\n",
           run.graph.function_count, run.graph.edge_count, run.numbering.encoded,
           run.numbering.back, run.numbering.cut, run.numbering.dictionary->max_id, run.all_calls,
           run.contexts, run.wrong, share(run.depth, run.calls), share(run.stacked, run.calls),
           share(run.pushed, run.calls), share(run.zero, run.calls), share(run.plain, run.calls));
    for (unsigned t = 0; t < profile->tree_count; t++)
        free(edges[t]);
    free(edges);
    profile_free(profile);
    dictionary_free(&run.graph, run.numbering.dictionary);
    numbering_free(&run.numbering);
    graph_free(&run.graph);
    pool_close(&run.pool);
}

int main(int count, char **words)
{
    if (count != 2) {
        fputs("usage: encode_profile PROFILE\n", stderr);
        return 2;
    }
    measure(words[1]);
    return 0;
}
