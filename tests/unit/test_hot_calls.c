// SPDX-License-Identifier: MIT
// What hooks of calls ask of a tree, the child and its event at once, against one after the other:
// it must come to the same.

#include "hot_fixture.h"
#include "tree_nodes.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Counts by name, less those of another stream: all are nought at the end.
struct difference {
    const struct stream *stream;
    uint64_t *counts, *errors;
    uint64_t sign;
};

static bool add_node(void *context, ref_t ref, const struct node *node)
{
    struct difference *difference = context;
    struct edge edge;
    assert_true(tree_edge_read(&difference->stream->arena, difference->stream->bytes,
                               tree_node_edge(node), &edge));
    if (node->parent && !edge.function) // for what has no place
        return true;
    const uint64_t name = stream_name(difference->stream, ref);
    assert_true(name);
    difference->counts[name] += difference->sign * node->value[0];
    if (tree_metrics(&difference->stream->arena, difference->stream->tree) > 1)
        difference->errors[name] += difference->sign * node->value[1];
    return true;
}

static void check_alike(const struct stream *one, const struct stream *other)
{
    uint64_t *counts = test_calloc(one->names, sizeof *counts);
    uint64_t *errors = test_calloc(one->names, sizeof *errors);
    const struct stream *streams[] = {one, other};
    for (unsigned i = 0; i < 2; i++) {
        struct difference difference = {streams[i], counts, errors, i ? UINT64_MAX : 1};
        const struct arena *arena = &streams[i]->arena;
        const int64_t nodes =
            tree_scan(arena, streams[i]->bytes, streams[i]->tree, add_node, &difference);
        assert_int_equal(nodes, tree_nodes(arena, streams[i]->tree));
    }
    for (uint64_t name = 0; name < one->names; name++) {
        assert_int_equal(counts[name], 0);
        assert_int_equal(errors[name], 0);
    }
    test_free(counts);
    test_free(errors);
}

static void compare(const struct tree_options *options, size_t bytes, bool weighted)
{
    struct stream one, other;
    stream_open(&one, bytes, options, 20, 3);
    stream_open(&other, bytes, options, 20, 3);
    other.by_calls = true;
    for (unsigned step = 0; step < 60000; step++) {
        const uint64_t name = stream_skewed(&one, 1 + step % 3);
        const uint64_t amount = weighted ? 1 + stream_random(&one) % 100 : 1;
        assert_int_equal(stream_charge(&one, name, amount), stream_charge(&other, name, amount));
    }
    check_alike(&one, &other);
    stream_close(&one);
    stream_close(&other);
}

static void test_hot_trees(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++)
        for (unsigned counters = 10; counters <= 1000; counters *= 10)
            for (unsigned weighted = 0; weighted < 2; weighted++) {
                const struct tree_options options = {.kind = TREE_HOT,
                                                     .miner = miner,
                                                     .counters = counters,
                                                     .sticky_items = counters * 6};
                compare(&options, 8 << 20, weighted);
            }
}

// With a budget that 1000 counters do not fit into: they are given up for nodes.
static void test_little_memory(void **state)
{
    (void)state;
    const struct tree_options options = {.kind = TREE_HOT, .counters = 1000};
    compare(&options, 24 << 10, false);
}

// In the smaller arena, it goes on as one that forgets.
static void test_full_trees_keep_their_counts_when_they_begin_to_forget(void **state)
{
    (void)state;
    const struct tree_options options = {.kind = TREE_FULL, .metrics = 1};
    compare(&options, 8 << 20, true);
    compare(&options, 64 << 10, false);
}

// The same streams keep what every hot tree promises.
static void test_streams_of_calls_keep_the_promises_of_hot_trees(void **state)
{
    (void)state;
    const struct tree_options options = {.kind = TREE_HOT, .counters = 200};
    struct stream stream;
    stream_open(&stream, 8 << 20, &options, 20, 3);
    stream.by_calls = true;
    for (unsigned step = 0; step < 60000; step++) {
        assert_true(stream_charge(&stream, stream_skewed(&stream, 3), 1));
        if (step % 5000 == 0)
            stream_check(&stream);
    }
    stream_check(&stream);
    stream_check_found(&stream, stream.charged / 200 + 1);
    stream_close(&stream);
}

// Hooks count contexts that have a counter by themselves, whichever miner watches them: calls of
// contexts that are known come to nobody else, and what is promised holds all the same.
static void test_known_contexts_are_left_to_hooks(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++) {
        const struct tree_options options = hot_options(miner, 1000);
        struct stream stream;
        stream_open(&stream, 8 << 20, &options, 6, 3);
        stream.by_calls = stream.by_hooks = true;
        for (unsigned step = 0; step < 100000; step++) {
            assert_true(stream_charge(&stream, stream_skewed(&stream, 2), 1));
            if (step % 10000 == 0)
                stream_check(&stream);
        }
        const struct tree_hot hot = stream_state(&stream);
        assert_true(hot.events <= stream.events / 100);
        assert_true(hot.scans <= 2 * hot.events);
        stream_check(&stream);
        stream_check_found(&stream, stream.charged / 1000 + 1);
        stream_close(&stream);
    }
}

// Where contexts are many more than counters.
static void test_hooks_and_new_contexts(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++)
        for (unsigned weighted = 0; weighted < 2; weighted++) {
            const struct tree_options options = hot_options(miner, 200);
            struct stream stream;
            stream_open(&stream, 8 << 20, &options, 30, 3);
            stream.by_calls = stream.by_hooks = true;
            for (unsigned step = 0; step < 300000; step++) {
                const uint64_t amount = weighted ? 1 + step % 7 * (step % 11) : 1;
                assert_true(stream_charge(&stream, stream_skewed(&stream, 3), amount));
                if (step % 20000 == 0)
                    stream_check(&stream);
            }
            const struct tree_hot hot = stream_state(&stream);
            assert_true(hot.scans <= 4 * hot.events);
            stream_check(&stream);
            stream_check_found(&stream, stream.charged / 200 + 1);
            stream_close(&stream);
        }
}

// There is nothing to count where there is no edge, or no caller.
static void test_a_call_without_edge_or_caller_counts_nothing(void **state)
{
    (void)state;
    const struct tree_options options = {.kind = TREE_HOT, .counters = 10};
    struct stream stream;
    stream_open(&stream, 1 << 20, &options, 4, 2);
    const ref_t root = tree_root(&stream.arena, stream.tree);
    assert_int_equal(tree_call(&stream.arena, stream.tree, root, 0, 1), 0);
    assert_int_equal(tree_call(&stream.arena, stream.tree, 0, stream.edges[1], 1), 0);
    assert_int_equal(stream_state(&stream).events, 0);
    stream_close(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hot_trees),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_full_trees_keep_their_counts_when_they_begin_to_forget),
        cmocka_unit_test(test_streams_of_calls_keep_the_promises_of_hot_trees),
        cmocka_unit_test(test_a_call_without_edge_or_caller_counts_nothing),
        cmocka_unit_test(test_known_contexts_are_left_to_hooks),
        cmocka_unit_test(test_hooks_and_new_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
