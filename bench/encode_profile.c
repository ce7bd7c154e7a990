// SPDX-License-Identifier: MIT
// What the encoding would make of a real program: from a profile of exact calls, whose contexts are
// all walked and weighed by their calls. The columns are those of the paper's Table 1.
//
//   encode_profile PROFILE...

#include "encode/decode.h"
#include "encode/statistics.h"
#include "profile/profile.h"
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

// All sites that had several targets are indirect calls; which those with one are is not known.
static void make_graph(struct run *run, uint32_t **edges)
{
    run->pool = (struct pool){.map = map, .unmap = unmap, .piece = 1 << 16};
    graph_init(&run->graph, &run->pool);
    for (unsigned t = 0; t < run->profile->tree_count; t++) {
        const struct profile_tree *tree = &run->profile->trees[t];
        edges[t] = calloc(tree->count, sizeof **edges);
        graph_set_root(&run->graph, function_of(run, tree, 0));
        for (uint32_t i = 1; i < tree->count; i++) {
            const struct profile_node *node = &tree->nodes[i];
            edges[t][i] = GRAPH_NONE;
            if (!node->function)
                continue;
            uint32_t caller = function_of(run, tree, node->parent);
            uint32_t callee = function_of(run, tree, i);
            edges[t][i] = graph_add_edge(&run->graph, node->site, caller, callee, EDGE_CALL);
            graph_edge(&run->graph, edges[t][i])->heat += calls_of(run, tree, i);
        }
    }
    for (uint32_t i = 0; i < run->graph.edge_count; i++) {
        struct graph_edge *edge = graph_edge(&run->graph, i);
        struct graph_site *site = graph_site(&run->graph, edge->site);
        if (site->targets > 1)
            edge->kind = site->kind = EDGE_INDIRECT;
    }
}

enum { DEEPEST = 1 << 16 };

static void check_context(struct run *run, struct machine *machine, const uint32_t *path,
                          uint32_t depth, uint64_t calls)
{
    static uint32_t decoded[DEEPEST];
    const struct graph_edge *last = graph_edge(&run->graph, path[depth - 1]);
    const struct code *code = numbering_code(&run->numbering, path[depth - 1]);
    machine_replay(machine, &run->numbering, path, depth);
    struct context context = context_of(machine, last->callee);
    int64_t count =
        context_decode(&run->graph, run->numbering.dictionary, &context, decoded, DEEPEST);
    run->wrong += count != depth || memcmp(decoded + DEEPEST - count, path, depth * 4ul) != 0;
    run->contexts++;
    run->calls += calls;
    run->depth += depth * calls;
    run->stacked += machine->depth * calls;
    run->pushed += (code->action != ACTION_ADD) * calls;
    run->zero += (code->action == ACTION_ADD && code->add == 0) * calls;
    run->plain += numbering_plain(&run->numbering, last->site) * calls;
}

static void walk_tree(struct run *run, const struct profile_tree *tree, const uint32_t *edges)
{
    static struct cc_entry stack[DEEPEST];
    static struct tc_entry tail_stack[DEEPEST];
    static uint32_t path[DEEPEST];
    struct machine machine = {.stack = stack, .tail_stack = tail_stack, .limit = DEEPEST};
    machine.tail_limit = DEEPEST;
    machine.root = function_of(run, tree, 0);
    // Large trees: every so many contexts.
    uint32_t step = tree->count / 100000 + 1;
    for (uint32_t i = 1; i < tree->count; i += step) {
        uint32_t depth = 0, at = i;
        if (edges[i] == GRAPH_NONE)
            continue;
        for (; tree->nodes[at].parent != PROFILE_NO_PARENT && depth < DEEPEST;
             at = tree->nodes[at].parent)
            path[DEEPEST - ++depth] = edges[at];
        if (depth < DEEPEST)
            check_context(run, &machine, path + DEEPEST - depth, depth, calls_of(run, tree, i));
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
    struct numbering_options options = {.id_bits = 64, .chain_targets = 4};
    if (numbering_make(&run.numbering, &run.graph, &options) < 0)
        exit(1);
    for (unsigned t = 0; t < profile->tree_count; t++)
        walk_tree(&run, &profile->trees[t], edges[t]);
    printf("%-32s %6u %6u %6u %5u %5u %9.2g %8.2f %8.2f %7.1f %7.1f %7.1f %9llu %6llu\n", name,
           run.graph.function_count, run.graph.edge_count, run.numbering.encoded,
           run.numbering.back, run.numbering.cut, (double)run.numbering.dictionary->max_id,
           share(run.depth, run.calls), share(run.stacked, run.calls),
           100 * share(run.pushed, run.calls), 100 * share(run.zero, run.calls),
           100 * share(run.plain, run.calls), (unsigned long long)run.contexts,
           (unsigned long long)run.wrong);
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
    printf("%-32s %6s %6s %6s %5s %5s %9s %8s %8s %7s %7s %7s %9s %6s\n", "profile", "nodes",
           "edges", "coded", "back", "cut", "max id", "depth", "ccStack", "push %", "zero %",
           "plain %", "contexts", "wrong");
    for (int i = 1; i < count; i++)
        measure(words[i]);
    return 0;
}
