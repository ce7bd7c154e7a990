// SPDX-License-Identifier: MIT
// The full tree that goes on as one of hot contexts when its arena is full.

#include "hot_fixture.h"
#include "tree/stable.h"
#include "tree_nodes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static void test_full_tree_goes_on(void **state)
{
    (void)state;
    const struct tree_options options = full_options();
    for (size_t bytes = 64 << 10; bytes <= 1 << 20; bytes *= 4) {
        struct stream stream;
        stream_open(&stream, bytes, &options, 16, 5);
        unsigned switched = 0;
        for (unsigned step = 0; step < 200000; step++) {
            // What is hot changes after a while: it must be found all the same.
            uint64_t name = stream_skewed(&stream, 3);
            if (step > 100000 && step % 3 == 0)
                name = 16 * 16 * 16 * 16 + 15 * 4096 + stream_random(&stream) % 20;
            if (!stream_charge(&stream, name, 1))
                fail_msg("no place at step %u", step);
            if (!switched && tree_forgets(&stream.arena, stream.tree)) {
                switched = step;
                assert_true(tree_forgets_read(&stream.arena, bytes, stream.tree));
            }
        }
        assert_true(switched > 0);
        assert_true(stream_used(&stream) <= bytes);
        stream_check(&stream); // exact nodes are exact, the others within bounds
        stream_check_found(&stream, stream_state(&stream).floor + 1);
        stream_check_found(&stream, stream.charged / 100);
        stream_close(&stream);
    }
}

// What is kept back lies behind all else, and when it is touched, nothing else is given.
static void test_kept_part(void **state)
{
    (void)state;
    uint64_t memory[512] = {0};
    struct arena arena;
    arena_init(&arena, memory, sizeof(struct arena_head), sizeof memory - 4);
    arena_keep_back(&arena, 1001);
    const uint64_t from = arena_kept_from(&arena);
    assert_true(from % 8 == 0 && from <= sizeof memory - 4 - 1001);
    assert_int_equal(arena_kept_room(&arena), sizeof memory - 4 - from);
    assert_true(arena_alloc(&arena, 100));
    assert_true(arena_room(&arena) > 2000);
    const ref_t first = arena_alloc_kept(&arena, 20);
    assert_int_equal((uint64_t)first * 8, from);
    assert_int_equal(arena_room(&arena), 0);
    assert_int_equal(arena_alloc(&arena, 8), 0);
    assert_int_equal(arena_alloc_kept(&arena, 8), first + 3);
    assert_int_equal(arena_alloc_kept(&arena, 1001), 0);
    assert_int_equal(atomic_load(&arena_head(&arena)->refused), 1);
}

// Statements below frames, and a tree that finds the arena full when it is made.
static void test_full_from_the_beginning(void **state)
{
    (void)state;
    const struct tree_options options = full_options();
    struct stream stream;
    stream_open(&stream, 256 << 10, &options, 16, 4);
    while (arena_alloc(&stream.arena, 8))
        ;
    for (unsigned step = 0; step < 3000; step++)
        stream_charge(&stream, stream_skewed(&stream, 4), 1);
    const ref_t second = tree_new(&stream.arena, &options);
    assert_true(second && tree_forgets(&stream.arena, second));
    assert_int_equal(tree_kind(&stream.arena, second), TREE_FULL);
    stream_check(&stream);
    const ref_t frame = tree_child(&stream.arena, second, tree_root(&stream.arena, second),
                                   tree_edge(&stream.arena, second, 5, 6));
    const ref_t statement =
        tree_child(&stream.arena, second, frame, tree_edge(&stream.arena, second, 9, 0));
    assert_true(frame && statement);
    tree_count(&stream.arena, second, frame, 1); // nowhere to count it
    tree_charge(&stream.arena, second, statement, 100);
    assert_true(tree_charge_late(&stream.arena, second, statement, 0, 5));
    assert_false(tree_charge_late(&stream.arena, second, frame, 0, 5));
    const ref_t unplaced = tree_unplaced(&stream.arena, second, frame);
    tree_charge(&stream.arena, second, unplaced, 7);
    const struct node *node = arena_at(&stream.arena, statement);
    assert_true(node->value[0] == 105 && node->value[1] == 0 && node->parent == frame);
    node = arena_at(&stream.arena, unplaced);
    assert_true(node->value[0] == 7 && node->parent == frame);
    node = arena_at(&stream.arena, frame);
    assert_int_equal(node->value[0], 0);
    stream_close(&stream);
}

// Arenas of any size, the last bytes of which must not be written beyond.
static void test_full_at_every_point(void **state)
{
    (void)state;
    const size_t bytes = 1 << 17;
    const struct tree_options options = full_options();
    unsigned char *base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t limit = 4000; limit < 60000; limit += 1208) {
        memset(base, 0, bytes);
        memset(base + limit, 0xa5, bytes - limit);
        struct stream stream = {.base = 30, .depth = 3, .random = limit, .bytes = limit};
        arena_init(&stream.arena, base, sizeof(struct arena_head), limit);
        arena_keep_back(&stream.arena, limit / 8);
        stream.tree = tree_new(&stream.arena, &options);
        if (!stream.tree)
            continue;
        uint64_t charged = 0;
        for (unsigned step = 0; step < 3000; step++) {
            ref_t node = tree_root(&stream.arena, stream.tree);
            for (unsigned i = 1 + stream_random(&stream) % 3; i > 0 && node; i--) {
                const place_t place = 1 + stream_random(&stream) % 30;
                const ref_t edge = tree_edge(&stream.arena, stream.tree, place, place);
                const ref_t next = tree_child(&stream.arena, stream.tree, node, edge);
                if (!next)
                    break;
                node = next;
            }
            node = tree_unplaced(&stream.arena, stream.tree, node);
            tree_charge(&stream.arena, stream.tree, node, 1);
            charged++;
        }
        assert_true(stream_used(&stream) <= limit);
        for (size_t i = limit; i < bytes; i++)
            if (base[i] != 0xa5)
                fail_msg("byte %zu beyond the limit %zu was written", i, limit);
        struct stable_tree stable;
        int64_t room = stable_bytes(&stream.arena, limit, stream.tree);
        assert_true(room > 0);
        void *memory = malloc((size_t)room);
        assert_int_equal(
            stable_read(&stable, &stream.arena, limit, stream.tree, memory, (size_t)room), 0);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < stable.count; i++)
            sum += stable_at(&stable, i)->value[0];
        assert_int_equal(stable.count, tree_nodes(&stream.arena, stream.tree));
        struct tree_hot hot = {0};
        tree_hot_read(&stream.arena, limit, stream.tree, &hot); // not before the arena was full
        assert_int_equal(sum - hot.made_up, charged);
        free(memory);
    }
    munmap(base, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_tree_goes_on),
        cmocka_unit_test(test_kept_part),
        cmocka_unit_test(test_full_from_the_beginning),
        cmocka_unit_test(test_full_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
