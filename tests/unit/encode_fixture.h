// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_ENCODE_FIXTURE_H
#define CAIRN_TESTS_ENCODE_FIXTURE_H

// A call graph whose functions are letters, its encoding, and a thread that walks it.

// The encoding, by the examples of the paper (Li, Wang, Wu, Hsu, Xu: Dynamic and Adaptive Calling
// Context Encoding, CGO 2014): its figures give the same numbers here. Functions have letters.

#include "encode/decode.h"
#include "encode/reencode_policy.h"
#include "encoded_call.h"
#include "make_pool.h"
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 64 };

static struct graph graph;
static struct numbering numbering;
static struct numbering_options options;
static struct context_state state;
static struct cc_entry stack[DEPTH];

static inline place_t entry_of(char name)
{
    return place_make(MODULE_FIRST_FILE, (uint64_t)name * 0x1000);
}

static inline uint32_t function_of(char name)
{
    return graph_add_function(&graph, entry_of(name));
}

static inline place_t site_of(char caller, char callee)
{
    return entry_of(caller) + 5 + (uint64_t)callee * 8;
}

static inline uint32_t find(const char *edge)
{
    return graph_find_edge(&graph, site_of(edge[0], edge[1]), function_of(edge[1]));
}

static inline uint32_t add_kind(const char *edge, enum edge_kind kind)
{
    return graph_add_edge(&graph, site_of(edge[0], edge[1]), function_of(edge[0]),
                          function_of(edge[1]), kind);
}

// "AB BC": calls from A to B and from B to C.
static inline void add(const char *edges)
{
    for (; *edges; edges += edges[2] ? 3 : 2)
        assert_true(add_kind(edges, EDGE_CALL) != GRAPH_NONE);
}

// Neither has a number, nor is counted when it repeats.
static inline bool is_plain_push(uint32_t edge)
{
    const int64_t word = numbering_word(&numbering, edge);
    return word < 0 && !(word & WORD_REPEATS);
}

static inline void encode(void)
{
    numbering_free(&numbering);
    options.stamp++;
    assert_int_equal(numbering_make(&numbering, &graph, &options), 0);
}

// Back in the root.
static inline void restart(void)
{
    context_reset(&state, dictionary_root(numbering.dictionary, state.root));
}

static inline int setup(void **unused)
{
    (void)unused;
    graph_init(&graph, &test_pool);
    options = (struct numbering_options){.id_bits = ID_BITS};
    assert_int_equal(numbering_make(&numbering, &graph, &options), 0);
    state = (struct context_state){.stack = stack, .limit = DEPTH, .root = function_of('A')};
    return 0;
}

static inline int teardown(void **unused)
{
    (void)unused;
    test_pool_fail_after(UINT_MAX);
    test_pool_free();
    return 0;
}

static inline uint64_t number_of(const char *edge)
{
    const int64_t word = numbering_word(&numbering, find(edge));
    assert_true(word >= 0);
    return (uint64_t)word;
}

// Walks along "ACD"; what is not known is met on the way.
static inline void walk(const char *path)
{
    for (; path[1]; path++) {
        if (find(path) == GRAPH_NONE)
            add_kind(path, EDGE_CALL);
        encoded_call(&state, &numbering, find(path));
    }
}

// Returns from the callee of "CD".
static inline void leave(const char *edge)
{
    encoded_return(&state, &numbering, find(edge));
}

static inline void assert_decodes(const struct dictionary *dictionary,
                                  const struct encoded_context *context, const char *expected)
{
    uint32_t path[DEPTH];
    int64_t count = context_decode(&graph, dictionary, context, path, DEPTH);
    assert_int_equal(count, strlen(expected) - 1);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(path[DEPTH - count + i], find(expected + i));
}

static inline void assert_context(const char *expected)
{
    struct encoded_context context =
        encoded_context_of(&state, function_of(expected[strlen(expected) - 1]));
    assert_decodes(numbering.dictionary, &context, expected);
}

static inline void assert_entry(unsigned at, uint64_t id, const char *edge, uint32_t count)
{
    assert_true(at < state.depth);
    assert_int_equal(stack[at].id, id);
    assert_int_equal(stack[at].edge, find(edge));
    assert_int_equal(stack[at].count, count);
}

static inline void assert_path(char function, unsigned count, const uint32_t *expected)
{
    uint32_t path[DEPTH];
    struct encoded_context context = encoded_context_of(&state, function_of(function));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), count);
    assert_memory_equal(path + DEPTH - count, expected, count * sizeof path[0]);
}

#endif
