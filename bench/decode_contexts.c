// SPDX-License-Identifier: MIT
// How many contexts are decoded in a second, how long an encoding takes to make, and how large its
// dictionary is: over call graphs of the size of real programs (see the paper's Table 1).
//
//   decode_contexts [FUNCTIONS EDGES]

#include "encode/codebook/serial.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { CONTEXTS = 20000, PATH = 4096, RUNS = 7 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct run {
    struct pool pool;
    struct graph graph;
    struct numbering numbering;
    struct encoded_context context[CONTEXTS];
    uint64_t edges, stacked; // of all contexts
};

enum { LEVELS = 14 };

static uint32_t level_start(uint32_t functions, uint64_t level)
{
    return (uint32_t)(functions * level / LEVELS);
}

// Levels, as programs have them: calls lead from one level to the next ones, most of them to a few
// popular functions; some go back up, and make circles.
static void make_graph(struct run *run, uint32_t functions, uint32_t edges)
{
    run->pool = (struct pool){.map = map, .unmap = unmap, .piece = 1 << 16};
    graph_init(&run->graph, &run->pool);
    for (uint32_t i = 0; i < functions; i++)
        graph_add_function(&run->graph, place_make(3, (uint64_t)i * 0x100));
    for (uint32_t i = 0; i < edges; i++) {
        // Each function has a caller; the rest is random.
        uint64_t popular = next_random(functions - 1), less = next_random(functions - 1);
        uint32_t callee = i + 1 < functions ? i + 1 : 1 + (uint32_t)(popular * less / functions);
        uint64_t level = (uint64_t)callee * LEVELS / functions, above = 1 + next_random(3);
        uint64_t kind = next_random(100);
        uint32_t first = level_start(functions, level > above ? level - above : 0);
        uint32_t end = level_start(functions, level > above ? level - above + 1 : 1);
        uint32_t caller = first + (uint32_t)next_random(end - first);
        if (kind < 3)
            caller = callee + (uint32_t)next_random(functions - callee);
        uint32_t edge = graph_add_edge(&run->graph, place_make(3, caller * 0x100ull + 1 + i % 255),
                                       caller, callee, kind % 10 ? EDGE_CALL : EDGE_INDIRECT);
        graph_edge(&run->graph, edge)->heat = next_random(1000);
    }
}

// Contexts by walking down at random from the root.
static void make_contexts(struct run *run)
{
    static struct cc_entry stack[PATH];
    for (unsigned c = 0; c < CONTEXTS; c++) {
        struct context_state state = {.stack = stack, .limit = PATH};
        uint32_t at = 0;
        for (uint64_t steps = 5 + next_random(60); steps > 0; steps--) {
            uint32_t chosen = GRAPH_NONE, seen = 0;
            for (uint32_t e = graph_function(&run->graph, at)->first_out; e != GRAPH_NONE;
                 e = graph_edge(&run->graph, e)->next_out) {
                if (next_random(++seen) == 0)
                    chosen = e;
            }
            if (chosen == GRAPH_NONE)
                break;
            context_call(&state, numbering_word(&run->numbering, chosen),
                         dictionary_base(run->numbering.dictionary) +
                             dictionary_own(run->numbering.dictionary,
                                            graph_edge(&run->graph, chosen)->callee));
            at = graph_edge(&run->graph, chosen)->callee;
            run->edges++;
        }
        run->context[c] = encoded_context_of(&state, at);
        struct cc_entry *copy = malloc(state.depth * sizeof *copy + 1);
        run->context[c].stack = memcpy(copy, stack, state.depth * sizeof *copy);
        run->stacked += state.depth;
    }
}

static void measure(uint32_t functions, uint32_t edges)
{
    static struct run run;
    static uint32_t path[PATH];
    memset(&run, 0, sizeof run);
    make_graph(&run, functions, edges);
    double making = 1e9, decoding = 1e9;
    struct numbering_options options = {.id_bits = ID_BITS};
    for (unsigned i = 0; i < RUNS; i++) {
        double start = now();
        if (numbering_make(&run.numbering, &run.graph, &options) < 0)
            exit(1);
        double spent = now() - start;
        making = spent < making ? spent : making;
        if (i + 1 < RUNS) {
            dictionary_free(&run.graph, run.numbering.dictionary);
            numbering_free(&run.numbering);
        }
    }
    make_contexts(&run);
    uint64_t wrong = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        double start = now();
        for (unsigned c = 0; c < CONTEXTS; c++)
            wrong += context_decode(&run.graph, run.numbering.dictionary, &run.context[c], path,
                                    PATH) < 0;
        double spent = now() - start;
        decoding = spent < decoding ? spent : decoding;
    }
    struct serial out = {0};
    serial_graph(&out, &run.graph, 0, 0);
    size_t graph_bytes = out.size;
    serial_dictionary(&out, run.numbering.dictionary);
    printf("%9u %8u %8u %5u %12.3g %7.1f %7.2f %9.2f %10.2f %10zu %10zu\n",
           run.graph.function_count, run.graph.edge_count, run.numbering.encoded, run.numbering.cut,
           (double)run.numbering.dictionary->max_id, (double)run.edges / CONTEXTS,
           (double)run.stacked / CONTEXTS, CONTEXTS / decoding / 1e6, making * 1e3, graph_bytes,
           out.size - graph_bytes);
    if (wrong)
        printf("%llu contexts could not be decoded\n", (unsigned long long)wrong);
    for (unsigned c = 0; c < CONTEXTS; c++)
        free((void *)run.context[c].stack);
    dictionary_free(&run.graph, run.numbering.dictionary);
    numbering_free(&run.numbering);
    graph_free(&run.graph);
    pool_close(&run.pool);
}

int main(int count, char **arguments)
{
    printf("functions    edges  encoded   cut       max id   depth ccStack  M ctx/s  encode ms  "
           "graph B   dictionary B\n");
    if (count > 2) {
        measure((uint32_t)atoi(arguments[1]), (uint32_t)atoi(arguments[2]));
        return 0;
    }
    static const uint32_t sizes[][2] = {
        {50, 109}, {684, 3911}, {2170, 7321}, {1931, 11518}, {20000, 80000}};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(sizes[i][0], sizes[i][1]);
    return 0;
}
