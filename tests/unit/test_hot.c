// SPDX-License-Identifier: MIT
// The tree of hot contexts against exact counts, its readers, and memory that others write to.

#include "hot_fixture.h"
#include "tree/stable.h"
#include "tree_nodes.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct hot *hot_part(const struct stream *stream)
{
    return hot_of(&stream->arena, arena_at(&stream->arena, stream->tree));
}

static ref_t child_of(struct stream *stream, ref_t parent, unsigned digit)
{
    return tree_child(&stream->arena, stream->tree, parent, stream->edges[digit]);
}

static bool is_alive(const struct stream *stream, ref_t ref)
{
    return ((const struct node *)arena_at(&stream->arena, ref))->edge != 0;
}

static void test_a_hot_tree_says_that_it_forgets(void **state)
{
    (void)state;
    const struct tree_options options = hot_options(TREE_SPACE_SAVING, 2);
    struct stream stream;
    stream_open(&stream, 1 << 20, &options, 10, 3);
    assert_int_equal(tree_kind(&stream.arena, stream.tree), TREE_HOT);
    assert_true(tree_forgets(&stream.arena, stream.tree));
    assert_true(tree_forgets_read(&stream.arena, stream.bytes, stream.tree));
    assert_int_equal(tree_metrics_read(&stream.arena, stream.bytes, stream.tree), 2);
    assert_int_equal(tree_node_bytes(tree_metrics(&stream.arena, stream.tree)), 32);
    struct edge edge;
    const struct node *root = arena_at(&stream.arena, tree_root(&stream.arena, stream.tree));
    assert_true(tree_edge_read(&stream.arena, stream.bytes, root->edge, &edge));
    assert_true(edge.site == 0 && edge.function == place_make(3, 7));
    assert_true(stream_used(&stream) < 3000); // threads by the thousand have one each

    // Two counters, three contexts: the third takes the counter of the colder one.
    stream_charge(&stream, 11, 1);
    stream_charge(&stream, 11, 1);
    stream_charge(&stream, 123, 1);
    assert_int_equal(tree_nodes(&stream.arena, stream.tree), 4); // 12 is there for 123
    stream_check(&stream);
    stream_charge(&stream, 145, 1);
    assert_int_equal(tree_nodes(&stream.arena, stream.tree), 4); // 12 and 123 went, 14 and 145 came
    stream_check(&stream);
    assert_int_equal(stream_state(&stream).floor, 1);
    assert_int_equal(stream_state(&stream).made_up, 0);
    stream_close(&stream);
}

static void test_against_exact_counts(void **state)
{
    (void)state;
    static const uint64_t counters[] = {1, 10, 100, 1000};
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++)
        for (unsigned i = 0; i < 4; i++)
            for (unsigned weighted = 0; weighted < 2; weighted++) {
                const struct tree_options options = hot_options(miner, counters[i]);
                struct stream stream;
                stream_open(&stream, 32 << 20, &options, 20, 4);
                for (unsigned step = 0; step < 60000; step++) {
                    const uint64_t name = stream_skewed(&stream, 3);
                    const uint64_t amount = weighted ? 1 + stream_random(&stream) % 5000 : 1;
                    assert_true(stream_charge(&stream, name, amount));
                    if (step % 7000 == 0)
                        stream_check(&stream);
                }
                stream_check(&stream);
                const struct tree_hot hot = stream_state(&stream);
                if (miner != TREE_STICKY_SAMPLING)
                    stream_check_found(&stream, hot.floor + 1);
                else
                    stream_check_found(&stream, stream.charged / counters[i] + 1);
                if (miner == TREE_LOSSY_COUNTING || (miner == TREE_SPACE_SAVING && !weighted))
                    assert_true(hot.floor <= stream.charged / counters[i]);
                stream_close(&stream);
            }
}

// The current context stays, monitored or not, until another one is asked for that is not below it;
// the pinned one stays with all above it.
static void test_what_is_held_stays(void **state)
{
    (void)state;
    const struct tree_options options = hot_options(TREE_SPACE_SAVING, 1);
    struct stream stream;
    stream_open(&stream, 1 << 20, &options, 10, 4);
    const ref_t root = tree_root(&stream.arena, stream.tree);
    const ref_t a = child_of(&stream, root, 1), b = child_of(&stream, a, 2);
    assert_true(is_alive(&stream, a) && is_alive(&stream, b));
    stream_check(&stream);
    tree_pin(&stream.arena, stream.tree, b);
    for (unsigned i = 0; i < 100; i++)
        stream_charge(&stream, 10 + i % 10, 1);
    stream_charge(&stream, 1000 + 555, 1);
    assert_true(is_alive(&stream, a) && is_alive(&stream, b));
    assert_int_equal(stream_name(&stream, b), 112);
    stream_check(&stream);
    tree_pin(&stream.arena, stream.tree, 0);
    assert_true(!is_alive(&stream, a) && !is_alive(&stream, b));
    stream_check(&stream);

    // A caller that has no counter stays while it calls one function after the other.
    const ref_t caller = child_of(&stream, child_of(&stream, root, 4), 5);
    for (unsigned digit = 0; digit < 9; digit++) {
        const ref_t called = child_of(&stream, caller, digit);
        assert_int_equal(stream_name(&stream, called), 1450 + digit);
        assert_int_equal(stream_name(&stream, caller), 145);
        stream_check(&stream);
    }

    // Asked for and left: gone, however deep.
    ref_t node = root;
    for (unsigned i = 0; i < 4; i++)
        node = child_of(&stream, node, 9);
    const ref_t other = child_of(&stream, root, 3);
    assert_true(!is_alive(&stream, node) || stream_name(&stream, node) == 13);
    assert_int_equal(hot_part(&stream)->current, other);
    stream_check(&stream);
    stream_close(&stream);
}

// A tracker may hold on to a node that has gone: it must get away with it.
static void test_references_that_are_stale(void **state)
{
    (void)state;
    const struct tree_options options = hot_options(TREE_SPACE_SAVING, 3);
    struct stream stream;
    stream_open(&stream, 1 << 20, &options, 10, 4);
    ref_t stale[64];
    unsigned count = 0;
    for (unsigned step = 0; step < 20000; step++) {
        ref_t node = tree_root(&stream.arena, stream.tree);
        for (unsigned i = stream_random(&stream) % 4; i > 0; i--)
            node = child_of(&stream, node, stream_random(&stream) % 10);
        tree_charge(&stream.arena, stream.tree, node, 1);
        stale[count++ % 64] = node;
        const ref_t old = stale[stream_random(&stream) % (count < 64 ? count : 64)];
        switch (stream_random(&stream) % 4) {
        case 0:
            tree_charge(&stream.arena, stream.tree, old, 1);
            break;
        case 1:
            assert_true(child_of(&stream, old, stream_random(&stream) % 10));
            break;
        case 2:
            tree_pin(&stream.arena, stream.tree, is_alive(&stream, old) ? old : 0);
            break;
        case 3:
            tree_charge_late(&stream.arena, stream.tree, old, 0, 0);
            break;
        }
    }
    // Whatever contexts were charged, the tree is whole.
    const struct tree_hot hot = stream_state(&stream);
    assert_int_equal(hot.monitored, 3);
    assert_true(tree_nodes(&stream.arena, stream.tree) <= 3 * 5 + 12);
    stream_close(&stream);
}

// Many children: in a hash, and back in a list when they have gone.
static void test_many_children(void **state)
{
    (void)state;
    const struct tree_options options = hot_options(TREE_SPACE_SAVING, 300);
    struct stream stream;
    stream_open(&stream, 4 << 20, &options, 1000, 2);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned step = 0; step < 4000; step++)
            assert_true(stream_charge(&stream, 1000 + stream_random(&stream) % 1000, 1));
        stream_check(&stream);
        for (unsigned step = 0; step < 4000; step++) // below one of them, and the others go
            assert_true(stream_charge(&stream, 1000000 + stream_random(&stream) % 1000, 1));
        stream_check(&stream);
    }
    const uint64_t bytes = stream_used(&stream);
    for (unsigned step = 0; step < 100000; step++)
        stream_charge(&stream, (step / 3000 % 2 ? 1000 : 1000000) + stream_random(&stream) % 1000,
                      1);
    assert_int_equal(stream_used(&stream), bytes); // what was freed is used again
    stream_check(&stream);
    stream_close(&stream);
}

// A million calls over a million contexts, in the memory of a few thousand.
static void test_a_million_contexts_fit_into_the_memory_of_thousands(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++) {
        const struct tree_options options = hot_options(miner, 1000);
        struct stream stream;
        stream_open(&stream, 4 << 20, &options, 16, 5);
        uint64_t most_nodes = 0;
        for (unsigned step = 0; step < 1000000; step++) {
            const uint64_t name = step % 4 ? stream_skewed(&stream, 1) : stream_skewed(&stream, 8);
            assert_true(stream_charge(&stream, name, 1));
            const uint64_t nodes = tree_nodes(&stream.arena, stream.tree);
            most_nodes = nodes > most_nodes ? nodes : most_nodes;
        }
        stream_check(&stream);
        stream_check_found(&stream, stream.charged / 1000 + 1);
        const struct tree_hot hot = stream_state(&stream);
        if (miner == TREE_SPACE_SAVING) {
            // A counter's node and its ancestors; edges and heads besides.
            assert_int_equal(hot.monitored, 1000);
            assert_true(most_nodes <= 1000 * 5);
            assert_true(stream_used(&stream) < 1000 * 5 * 32 + 64 * 1024);
            assert_true(hot.scans <= 2 * hot.events);
        }
        stream_close(&stream);
    }
}

// Memory for fewer contexts than counters were asked for.
static void test_too_little_memory_keeps_fewer_counters(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++)
        for (size_t bytes = 6 << 10; bytes <= 48 << 10; bytes += 3 << 10) {
            const struct tree_options options = hot_options(miner, 100000);
            struct stream stream;
            stream_open(&stream, bytes, &options, 8, 4);
            for (unsigned step = 0; step < 20000; step++)
                stream_charge(&stream, stream_skewed(&stream, 4), 1);
            assert_true(stream_used(&stream) <= bytes);
            assert_true(stream.events > 19900);
            const struct tree_hot hot = stream_state(&stream);
            assert_true(hot.monitored > 8);
            if (miner == TREE_SPACE_SAVING) {
                stream_check(&stream);
                stream_check_found(&stream, hot.floor + 1);
            }
            stream_close(&stream);
        }
}

// The full tree

// Readers

// Another process reads while contexts come and go: whatever it sees is a path of the tree.
static void test_reader_in_another_process(void **state)
{
    (void)state;
    const size_t bytes = 8 << 20;
    const struct tree_options options = hot_options(TREE_SPACE_SAVING, 200);
    struct stream stream = {.base = 30, .depth = 4, .random = 12345, .bytes = bytes};
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *over = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    arena_init(&stream.arena, base, sizeof(struct arena_head), bytes);
    stream.tree = tree_new(&stream.arena, &options);
    pid_t child = fork();
    if (child == 0) {
        struct stable_tree stable;
        unsigned readings = 0;
        do {
            int64_t room = stable_bytes(&stream.arena, bytes, stream.tree);
            void *memory = malloc((size_t)room);
            int result =
                stable_read(&stable, &stream.arena, bytes, stream.tree, memory, (size_t)room);
            if (result && result != -ENOMEM) // it has outgrown the room since: once more
                _exit(2);
            for (uint32_t i = 1; i < stable.count; i++) {
                const struct stable_node *node = stable_at(&stable, i);
                struct edge edge, above;
                // The writer makes paths whose sites are those of their parents' functions.
                if (!tree_edge_read(&stream.arena, bytes, node->edge, &edge) ||
                    !tree_edge_read(&stream.arena, bytes, stable_at(&stable, node->parent)->edge,
                                    &above))
                    _exit(3);
                if (edge.site != (node->parent ? above.function : 1000))
                    _exit(4);
            }
            readings += result == 0;
            free(memory);
        } while (!__atomic_load_n(over, __ATOMIC_ACQUIRE) || readings < 20);
        _exit(0);
    }
    for (unsigned step = 0; step < 300000; step++) {
        ref_t node = tree_root(&stream.arena, stream.tree);
        place_t site = 1000;
        for (unsigned i = 1 + stream_random(&stream) % 4; i > 0; i--) {
            const place_t function = 1 + stream_random(&stream) % 30;
            node = tree_child(&stream.arena, stream.tree, node,
                              tree_edge(&stream.arena, stream.tree, site, function));
            site = function;
        }
        tree_charge(&stream.arena, stream.tree, node, 1);
    }
    __atomic_store_n(over, 1, __ATOMIC_RELEASE);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(base, bytes);
    munmap(over, 4096);
}

static bool touch(void *context, ref_t ref, const struct node *node)
{
    const struct arena *arena = context;
    struct edge edge;
    volatile uint64_t sink = node->value[0] + node->value[1] + node->parent + ref;
    (void)sink;
    (void)tree_edge_read(arena, 1 << 14, node->edge, &edge);
    return true;
}

static void read_damaged(struct arena *arena, size_t bytes, ref_t tree)
{
    struct stable_tree stable;
    struct tree_hot hot;
    tree_scan(arena, bytes, tree, touch, arena);
    tree_hot_read(arena, bytes, tree, &hot);
    int64_t room = stable_bytes(arena, bytes, tree);
    if (room < 0 || room > 1 << 20)
        return;
    void *memory = malloc((size_t)room);
    stable_read(&stable, arena, bytes, tree, memory, (size_t)room);
    free(memory);
}

// In a heap block, so that the address sanitizer sees whoever reads beyond it.
static void test_damaged_memory(void **state)
{
    (void)state;
    const size_t bytes = 1 << 14;
    const struct tree_options kinds[] = {hot_options(TREE_SPACE_SAVING, 20), full_options()};
    for (unsigned kind = 0; kind < 2; kind++) {
        unsigned char *good = calloc(1, bytes), *bad = malloc(bytes);
        struct stream stream = {.random = 99};
        arena_init(&stream.arena, good, sizeof(struct arena_head), bytes);
        if (kind)
            arena_keep_back(&stream.arena, bytes / 4);
        const ref_t tree = tree_new(&stream.arena, &kinds[kind]);
        for (unsigned step = 0; step < 2000; step++) {
            ref_t node = tree_root(&stream.arena, tree);
            for (unsigned i = 0; i < 3 && node; i++) {
                const place_t place = 1 + stream_random(&stream) % 9;
                node = tree_child(&stream.arena, tree, node,
                                  tree_edge(&stream.arena, tree, place, place));
            }
            if (node)
                tree_charge(&stream.arena, tree, node, 1);
        }
        assert_true(tree_forgets(&stream.arena, tree));
        struct arena damaged = {.base = bad};
        for (unsigned round = 0; round < 8000; round++) {
            memcpy(bad, good, bytes);
            size_t range = round % 2 ? bytes : 1024;
            for (uint64_t flips = 1 + stream_random(&stream) % 8; flips > 0; flips--)
                bad[stream_random(&stream) % range] ^= 1u << stream_random(&stream) % 8;
            read_damaged(&damaged, bytes, tree);
        }
        struct tree_hot hot;
        assert_false(tree_hot_read(&damaged, bytes, 0, &hot));
        assert_false(tree_hot_read(&damaged, bytes, UINT32_MAX, &hot));
        free(good);
        free(bad);
    }
}

// The tool zeroes a slice when its process is dead; if it was wrong, the process must survive it.
static void test_zeroed_under_the_writer(void **state)
{
    (void)state;
    const struct tree_options kinds[] = {hot_options(TREE_SPACE_SAVING, 20),
                                         hot_options(TREE_LOSSY_COUNTING, 20), full_options()};
    for (unsigned kind = 0; kind < 3; kind++) {
        struct stream stream;
        stream_open(&stream, 1 << 16, &kinds[kind], 16, 4);
        for (unsigned step = 0; step < 20000; step++)
            stream_charge(&stream, stream_skewed(&stream, 2), 1);
        const ref_t held = hot_part(&stream)->current;
        memset(stream.arena.base, 0, stream.bytes);
        for (unsigned step = 0; step < 1000; step++) {
            ref_t edge = tree_edge(&stream.arena, stream.tree, 3, 4);
            assert_int_equal(edge, 0);
            ref_t node = tree_child(&stream.arena, stream.tree, held, edge);
            if (!node)
                node = tree_unplaced(&stream.arena, stream.tree, held);
            tree_pin(&stream.arena, stream.tree, held);
            tree_charge(&stream.arena, stream.tree, held, 1);
            tree_charge(&stream.arena, stream.tree, node, 1);
            tree_count(&stream.arena, stream.tree, held, 1);
            tree_charge_late(&stream.arena, stream.tree, held, 0, 1);
        }
        stream_close(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hot_tree_says_that_it_forgets),
        cmocka_unit_test(test_against_exact_counts),
        cmocka_unit_test(test_what_is_held_stays),
        cmocka_unit_test(test_references_that_are_stale),
        cmocka_unit_test(test_many_children),
        cmocka_unit_test(test_a_million_contexts_fit_into_the_memory_of_thousands),
        cmocka_unit_test(test_too_little_memory_keeps_fewer_counters),
        cmocka_unit_test(test_reader_in_another_process),
        cmocka_unit_test(test_damaged_memory),
        cmocka_unit_test(test_zeroed_under_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
