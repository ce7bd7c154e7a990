// SPDX-License-Identifier: MIT
// Feeds the reader of encoded contexts what it must survive. Built with libFuzzer
// (-DWITH_LIBFUZZER, clang -fsanitize=fuzzer) it explores; without, it runs for argv[1] seconds of
// deterministic mutations.

#include "../random.h"
#include "encode/tell.h"
#include "make_pool.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACK = 64, PATH = 256, HANDLES = 64 };

static unsigned long told;

// What everybody who decodes relies on.
static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_path(const struct codebook *codebook, const uint32_t *path, uint32_t count,
                       uint32_t root, uint32_t function)
{
    uint32_t at = root;
    for (uint32_t i = 0; i < count; i++) {
        check(path[i] < codebook->graph.edge_count);
        const struct graph_edge *edge = graph_edge(&codebook->graph, path[i]);
        check(edge->caller == at || edge_keeps_function(edge));
        at = edge->callee;
    }
    check(at == function);
}

static void check_dictionary(const struct codebook *codebook, const struct dictionary *dictionary)
{
    uint64_t most = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        uint64_t end = into->reserved;
        for (uint32_t i = into->first; i < into->first + into->count; i++) {
            const struct dictionary_step *step = &dictionary->step[i];
            check(step->start >= end && step->caller < dictionary->functions);
            check(step->edge == GRAPH_NONE ||
                  graph_edge(&codebook->graph, step->edge)->callee == f);
            end = step->edge == GRAPH_NONE
                      ? dictionary->function[step->caller].own_end
                      : step->start + dictionary->function[step->caller].contexts;
            check(end > step->start && end <= into->contexts);
            check(dictionary_find(dictionary, f, step->start) == step);
            check(dictionary_find(dictionary, f, end - 1) == step);
        }
        check(into->contexts > 0 && !dictionary_find(dictionary, f, into->contexts));
        check(!into->reserved || !dictionary_find(dictionary, f, 0));
        if (into->contexts - 1 > most)
            most = into->contexts - 1;
    }
    check(most == dictionary->max_id);
}

static void check_handle(const struct codebook *codebook, const struct dictionary *dictionary,
                         uint32_t node)
{
    struct cc_entry stack[STACK];
    uint32_t path[PATH];
    uint64_t handle = (uint64_t)dictionary->stamp << 32 | node;
    uint64_t ids[] = {0, 1, dictionary->max_id, dictionary->max_id + 1, 2 * dictionary->max_id + 1};
    for (uint32_t f = 0; f < codebook->graph.function_count && f < 16; f++) {
        for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
            struct intern_origin origin;
            int64_t count =
                codebook_decode(codebook, ids[i], handle, f, stack, STACK, path, PATH, &origin);
            check(count >= 0 || count == -ENOSPC || count == -EBADMSG);
            if (count >= 0)
                check_path(codebook, path + PATH - count, (uint32_t)count, origin.root, f);
        }
    }
}

// As whoever was handed the node would ask.
static void check_telling(const struct codebook *codebook, uint32_t stamp, uint32_t node)
{
    struct cc_entry stack[STACK];
    uint32_t path[STACK];
    struct walked frames[STACK];
    struct telling telling = {.limit = STACK, .stack = stack, .path = path, .frames = frames};
    for (uint64_t id = 0; id < 4; id++) {
        int status = codebook_tell(codebook, id, (uint64_t)stamp << 32 | node, &telling);
        check(status == 0 || status == -ENOSPC || status == -EBADMSG);
        check(status < 0 || telling.count <= STACK);
        told += status == 0;
    }
}

static unsigned long accepted;

static void examine(const uint8_t *data, size_t size)
{
    struct pool pool = make_pool();
    struct codebook codebook;
    codebook_init(&codebook, &pool);
    codebook.dictionary_limit = 1 << 24;
    int status = codebook_read(&codebook, data, size);
    check(status == 0 || status == -ENOMEM || status == -EBADMSG);
    accepted += status == 0;
    for (uint32_t d = 0; d < codebook.dictionary_count; d++) {
        const struct dictionary *dictionary =
            *(struct dictionary **)series_at(&codebook.dictionaries, d);
        check_dictionary(&codebook, dictionary);
        check(codebook_dictionary(&codebook, dictionary->stamp) == dictionary);
        for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
            check_handle(&codebook, dictionary, node);
        for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
            check_telling(&codebook, dictionary->stamp, node);
    }
    for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
        check_telling(&codebook, 0, node);
    codebook_free(&codebook);
    check(pool.mapped == 0);
}

#ifdef WITH_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    examine(data, size);
    return 0;
}

#else

// A small program that was encoded three times, some of its stacks interned.
static struct serial make_seed(void)
{
    static uint8_t data[1 << 16];
    static uint64_t memory[1 << 10];
    struct serial out = {.data = data, .capacity = sizeof data};
    struct graph graph;
    struct numbering numbering;
    struct intern intern;
    const struct dictionary *previous = NULL;
    graph_init(&graph, &test_pool);
    intern_init(&intern, memory, sizeof memory);
    for (uint32_t i = 0; i < 12; i++)
        graph_add_function(&graph, place_make(3 + i % 2, i * 0x40));
    uint32_t origin = intern_origin(&intern, &(struct intern_origin){.function = GRAPH_NONE});
    for (uint32_t stamp = 0; stamp < 3; stamp++) {
        uint32_t from = graph.edge_count;
        for (unsigned i = 0; i < 10; i++) {
            uint32_t caller = (uint32_t)(next_random() % 12),
                     callee = (uint32_t)(next_random() % 12);
            graph_add_edge(&graph, place_make(3, caller * 0x40 + i * 5 + stamp), caller, callee,
                           (enum edge_kind)(next_random() % EDGE_KINDS));
        }
        struct numbering_options options = {.stamp = stamp, .id_bits = 64};
        check(numbering_make(&numbering, &graph, &options) == 0);
        serial_graph(&out, &graph, stamp ? graph.function_count : 0, from);
        serial_dictionary(&out, numbering.dictionary, previous);
        previous = numbering.dictionary;
        struct cc_entry stack[3];
        for (uint32_t i = 0; i < 3; i++)
            stack[i] = (struct cc_entry){i, (uint32_t)(next_random() % graph.edge_count), i};
        uint32_t first = intern.used;
        uint32_t node = (uint32_t)intern_stack(&intern, stamp, origin, stack, 3, NULL);
        intern_point(&intern, node, place_make(3, 5), stamp);
        intern_point(&intern, origin, place_make(3, 7), 0);
        node = intern_origin(&intern, &(struct intern_origin){1, node, GRAPH_NONE, GRAPH_NONE});
        for (uint32_t i = 0; i < 3; i++)
            node = intern_frame(&intern, node, i, place_make(3, i * 16 + stamp));
        intern_point(&intern, node, place_make(3, 9), GRAPH_NONE);
        serial_stacks(&out, &intern.node[stamp ? first : 1], stamp ? first : 1,
                      intern_ready(&intern, first));
    }
    return out;
}

static void mutate(uint8_t *data, size_t size)
{
    static const uint8_t nasty[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    for (uint64_t count = next_random() % 4; count > 0 && size > 0; count--) {
        size_t at = next_random() % size;
        if (next_random() % 2)
            data[at] ^= (uint8_t)(1u << next_random() % 8);
        else
            data[at] = nasty[next_random() % sizeof nasty];
    }
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    struct serial seed = make_seed();
    unsigned long runs = 0;
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end; runs++) {
        size_t size = runs % 16 ? seed.size : next_random() % (seed.size + 1);
        // Exactly as large, so that a read beyond the end is caught.
        uint8_t *copy = malloc(size ? size : 1);
        memcpy(copy, seed.data, size);
        if (runs > 0)
            mutate(copy, size);
        examine(copy, size);
        free(copy);
    }
    test_pool_free();
    printf("%lu inputs, %lu sound, %lu told\n", runs, accepted, told);
    return runs == 0 || accepted == 0 || told == 0;
}

#endif
