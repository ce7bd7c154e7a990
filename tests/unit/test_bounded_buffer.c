// SPDX-License-Identifier: MIT
#include "bounded_fixture.h"
#include "tree_nodes.h"

// Everything that is charged is in a node, in the root, or purged.
static void check_tree(struct thread *thread)
{
    const int64_t bytes = stable_bytes(&thread->arena, used(thread), thread->tree);
    assert_true(bytes > 0);
    void *memory = malloc((size_t)bytes);
    struct stable_tree stable;
    uint64_t sum = 0;
    assert_int_equal(
        stable_read(&stable, &thread->arena, used(thread), thread->tree, memory, (size_t)bytes), 0);
    assert_int_equal(stable.left_out, 0);
    assert_int_equal(stable.count, tree_nodes(&thread->arena, thread->tree));
    for (uint32_t i = 0; i < stable.count; i++)
        sum += stable_at(&stable, i)->value[0];
    assert_int_equal(sum + bounded_purged(&thread->arena, thread->tree), thread->charged);
    free(memory);
}

// A program that calls and returns at random; few functions are hot, and stacks go deep at times.
static void run(struct thread *thread, unsigned samples, unsigned functions, unsigned deepest)
{
    for (unsigned i = 0; i < samples; i++) {
        unsigned moves = (unsigned)(next_random() % 12);
        while (moves--) {
            if (thread->depth && (thread->depth >= deepest || next_random() % 9 < 4))
                back(thread, 1 + (unsigned)(next_random() % thread->depth) / 4);
            else
                call_from(thread, letter('0') + next_random() % 3,
                          place_make(5, next_random() % (1 + next_random() % functions)));
        }
        const uint64_t kinds[] = {1, next_random() % 7, next_random() % 1000000, 1000000};
        sample(thread, kinds[next_random() % 4]);
        if (thread->depth) // what the thread stands on is never forgotten
            assert_true(node_at(thread, thread->stack[thread->depth - 1].node)->edge);
    }
}

static void test_costs_add_up(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 16, 4 << 20, TREE_PURGE_AGE);
    for (unsigned i = 0; i < 40; i++) {
        run(thread, 200, 40, 30);
        check_tree(thread);
    }
    assert_int_equal(bounded_purged(&thread->arena, thread->tree), 0);
    free_thread(thread);
}

static void test_a_tree_keeps_to_its_buffer(void **state)
{
    (void)state;
    for (unsigned purge = TREE_PURGE_AGE; purge <= TREE_PURGE_ALL; purge++) {
        for (uint64_t bytes = 16 << 10; bytes <= 256 << 10; bytes *= 4) {
            struct thread *thread = new_thread(TREE_BOUNDED, 16, bytes, purge);
            const uint64_t before = used(thread);
            for (unsigned i = 0; i < 30; i++) {
                run(thread, 300, 2000, 40);
                check_tree(thread);
                assert_true(used(thread) - before <= bytes);
                assert_true(tree_nodes(&thread->arena, thread->tree) <=
                            bounded_capacity(&thread->arena, thread->tree) + 1);
            }
            assert_true(bounded_purged(&thread->arena, thread->tree) > 0);
            // By age, all is emptied only if nothing else is left to forget.
            if (purge == TREE_PURGE_ALL)
                assert_true(thread->emptied > 0);
            else
                assert_int_equal(thread->emptied, 0);
            free_thread(thread);
        }
    }
}

// A sample two calls below M. Few edges make many contexts: of these there are enough.
static void sample_grid(struct thread *thread, unsigned number)
{
    call_from(thread, letter('M') + 5, place_make(6, number / 16));
    call_from(thread, 77, place_make(7, number % 16));
    sample(thread, 1);
    back(thread, 2);
}

// Its node, 0 if it is forgotten.
static ref_t find_grid(struct thread *thread, unsigned number)
{
    const ref_t main = child_of(thread, root_of(thread), letter('0') + 5, letter('M'));
    const ref_t above = child_of(thread, main, letter('M') + 5, place_make(6, number / 16));
    return above ? child_of(thread, above, 77, place_make(7, number % 16)) : 0;
}

// What was touched last stays; the oldest goes first, leaves before what leads to them.
static void test_the_oldest_leaf_goes_first(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 8, 16 << 10, TREE_PURGE_AGE);
    call(thread, 'M');
    call(thread, 'A');
    call(thread, 'B');
    const ref_t leaf = sample(thread, 7), parent = node_at(thread, leaf)->parent;
    const uint32_t capacity = bounded_capacity(&thread->arena, thread->tree);
    back(thread, 2);
    unsigned number = 0;
    while (bounded_purged(&thread->arena, thread->tree) == 0)
        sample_grid(thread, number++);
    // B was the oldest leaf, and A had no other child. All of the others are still there.
    assert_int_equal(bounded_purged(&thread->arena, thread->tree), 7);
    assert_false(bounded_is(&thread->arena, thread->tree, leaf, parent,
                            &(struct edge){letter('A') + 5, letter('B')}));
    assert_true(number > capacity / 2);
    for (unsigned i = 0; i < number; i++)
        assert_true(find_grid(thread, i));
    assert_int_equal(thread->emptied, 0);
    // Contexts that are touched again are young; the next ones go instead.
    sample_grid(thread, 0);
    for (unsigned i = 0; i < 8; i++)
        sample_grid(thread, number++);
    const uint64_t purged = bounded_purged(&thread->arena, thread->tree);
    assert_in_range(purged, 8, 7 + 2 * 9);
    sample_grid(thread, 0);
    check_tree(thread);
    const ref_t first = find_grid(thread, 0);
    assert_int_equal(node_at(thread, first)->value[0], 3);
    assert_int_equal(find_grid(thread, 1), 0);
    free_thread(thread);
}

// Calls from ever new places (generated code): the edges run out before the nodes do.
static void test_edges_make_room_before_nodes_do(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 8, 16 << 10, TREE_PURGE_AGE);
    call(thread, 'M');
    const uint32_t epoch = bounded_edge_epoch(&thread->arena, used(thread), thread->tree);
    for (unsigned i = 0; i < 20000; i++) {
        call_from(thread, place_make(1, i), place_make(1, i * 3));
        call_from(thread, place_make(1, i % 5), place_make(1, i % 11));
        sample(thread, 1);
        back(thread, 2);
    }
    assert_int_equal(thread->emptied, 0);
    assert_int_not_equal(bounded_edge_epoch(&thread->arena, used(thread), thread->tree), epoch);
    check_tree(thread);
    free_thread(thread);
}

static void test_emptied_tree_keeps_its_root_and_its_sums(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 16, 64 << 10, TREE_PURGE_AGE);
    run(thread, 100, 10, 10);
    // The root stays, with what it was charged.
    const uint64_t expected = thread->charged - node_at(thread, root_of(thread))->value[0];
    bounded_empty(&thread->arena, thread->tree);
    forget_marks(thread);
    assert_int_equal(tree_nodes(&thread->arena, thread->tree), 1);
    assert_int_equal(bounded_purged(&thread->arena, thread->tree), expected);
    run(thread, 100, 10, 10);
    check_tree(thread);
    bounded_reset(&thread->arena, thread->tree);
    forget_marks(thread);
    thread->charged = 0;
    assert_int_equal(tree_nodes(&thread->arena, thread->tree), 1);
    check_tree(thread);
    run(thread, 100, 10, 10);
    check_tree(thread);
    free_thread(thread);
}

// An arena that is nearly full gives a smaller buffer, or none: then all goes to the root.
static void test_a_nearly_full_arena_gives_a_smaller_buffer_or_none(void **state)
{
    (void)state;
    for (unsigned left = 0; left <= 64 << 10; left += 32 << 10) {
        struct thread *thread = new_thread(TREE_BOUNDED, 16, 1 << 20, TREE_PURGE_AGE);
        arena_head(&thread->arena)->limit = used(thread) + left;
        if (left) {
            run(thread, 2000, 100, 20);
            check_tree(thread);
            assert_true(bounded_purged(&thread->arena, thread->tree) > 0);
        } else {
            assert_false(bounded_begin(&thread->arena, thread->tree));
            assert_int_equal(bounded_enter(&thread->arena, thread->tree, root_of(thread),
                                           &(struct bounded_call){1, 2, 3, 0}),
                             0);
            ref_t node = bounded_counter(&thread->arena, thread->tree, letter('A'));
            assert_int_equal(node, root_of(thread));
            tree_charge(&thread->arena, thread->tree, node, 5);
            assert_int_equal(node_at(thread, node)->value[0], 5);
        }
        assert_int_equal(atomic_load(&arena_head(&thread->arena)->refused), 0);
        free_thread(thread);
    }
}

// The program may write anywhere. The owner of a tree must not fault or hang for that; what it
// makes of it matters to nobody.
static void test_the_owner_of_a_damaged_tree_goes_on(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        struct thread *thread =
            new_thread(TREE_BOUNDED, 16, 16 << 10, round % 2 ? TREE_PURGE_AGE : TREE_PURGE_ALL);
        const uint64_t buffer = used(thread);
        run(thread, 100, 200, 30);
        unsigned char *bytes = thread->arena.base;
        const uint64_t from = round % 3 ? buffer : (uint64_t)thread->tree * 8;
        for (unsigned i = 0; i < 1u << round % 12; i++) {
            const uint64_t at = from + next_random() % (used(thread) - from);
            bytes[at] = (unsigned char)(next_random() >> 32);
        }
        // The head itself is what the owner goes by.
        for (unsigned i = 0; i < 200 && from == buffer; i++) {
            ref_t node = root_of(thread);
            if (!bounded_begin(&thread->arena, thread->tree))
                break;
            for (unsigned j = 0; j < 4; j++) {
                ref_t next = bounded_enter(
                    &thread->arena, thread->tree, node,
                    &(struct bounded_call){next_random() % 9, next_random() % 50, 3, 0});
                if (!next)
                    bounded_empty(&thread->arena, thread->tree);
                node = next ? next : root_of(thread);
            }
            tree_charge(&thread->arena, thread->tree, node, 5);
        }
        free_thread(thread);
    }
    struct thread *thread = new_thread(TREE_BOUNDED, 16, 16 << 10, TREE_PURGE_AGE);
    run(thread, 10, 10, 10);
    memset(thread->arena.base, 0, ARENA_BYTES);
    assert_false(bounded_begin(&thread->arena, thread->tree));
    assert_int_equal(
        bounded_enter(&thread->arena, thread->tree, 77, &(struct bounded_call){1, 2, 3, 0}), 0);
    tree_charge(&thread->arena, thread->tree, 77, 5);
    free_thread(thread);
}

// A reader beside the writer gets whole paths, and always comes to an end.
static void *read_paths(void *context)
{
    struct thread *thread = context;
    uintptr_t seen = 0;
    const size_t most = ARENA_BYTES;
    void *memory = malloc(most);
    while (!__atomic_load_n(&thread->ended, __ATOMIC_ACQUIRE)) {
        struct stable_tree stable;
        if (stable_read(&stable, &thread->arena, ARENA_BYTES, thread->tree, memory, most) < 0)
            continue;
        for (uint32_t i = 0, depth = 0; i < stable.count; i++, depth = 0) {
            for (uint32_t at = i; stable_at(&stable, at)->parent != STABLE_NO_PARENT; depth++)
                at = stable_at(&stable, at)->parent;
            if (depth > 4)
                return NULL; // put together from two
        }
        seen += stable.count > 1;
    }
    free(memory);
    return (void *)(seen + 1);
}

static void test_a_reader_beside_the_owner_sees_whole_paths(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 4, 32 << 10, TREE_PURGE_AGE);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_paths, thread), 0);
    for (unsigned i = 0; i < 100000; i++) {
        ref_t node = root_of(thread);
        assert_true(bounded_begin(&thread->arena, thread->tree));
        for (unsigned j = 0; j < 4; j++)
            node = bounded_enter(&thread->arena, thread->tree, node,
                                 &(struct bounded_call){next_random() % 9, 1 + next_random() % 50,
                                                        next_random() % 300, 0});
        tree_charge(&thread->arena, thread->tree, node, next_random() % 300);
        if (i % 5000 == 0)
            bounded_empty(&thread->arena, thread->tree);
    }
    __atomic_store_n(&thread->ended, 1, __ATOMIC_RELEASE);
    void *result = NULL;
    assert_int_equal(pthread_join(reader, &result), 0);
    assert_non_null(result);
    free_thread(thread);
}

// A path that is longer than the buffer: nothing can be forgotten by age.
static void test_deep_path(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 8, 16 << 10, TREE_PURGE_AGE);
    for (unsigned i = 0; i < 3000; i++) {
        call(thread, (char)('A' + i % 7));
        if (i % 5 == 0)
            sample(thread, 1);
    }
    assert_true(thread->emptied > 0);
    check_tree(thread);
    free_thread(thread);
}

static void test_each_function_has_one_counter(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_FUNCTIONS, 1, 256 << 10, TREE_PURGE_AGE);
    uint64_t expected[100] = {0};
    for (unsigned i = 0; i < 20000; i++) {
        unsigned function = (unsigned)(next_random() % (1 + next_random() % 100));
        uint64_t cost = 1 + next_random() % 1000;
        ref_t node = bounded_counter(&thread->arena, thread->tree, place_make(4, function));
        tree_charge(&thread->arena, thread->tree, node, cost);
        assert_int_equal(node_at(thread, node)->parent, root_of(thread));
        expected[function] += cost;
        thread->charged += cost;
    }
    for (unsigned i = 0; i < 100; i++) {
        const ref_t counter = child_of(thread, root_of(thread), 0, place_make(4, i));
        assert_true(counter);
        assert_int_equal(node_at(thread, counter)->value[0], expected[i]);
    }
    assert_int_equal(tree_nodes(&thread->arena, thread->tree), 101);
    check_tree(thread);
    free_thread(thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_add_up),
        cmocka_unit_test(test_a_tree_keeps_to_its_buffer),
        cmocka_unit_test(test_the_oldest_leaf_goes_first),
        cmocka_unit_test(test_edges_make_room_before_nodes_do),
        cmocka_unit_test(test_emptied_tree_keeps_its_root_and_its_sums),
        cmocka_unit_test(test_a_nearly_full_arena_gives_a_smaller_buffer_or_none),
        cmocka_unit_test(test_the_owner_of_a_damaged_tree_goes_on),
        cmocka_unit_test(test_a_reader_beside_the_owner_sees_whole_paths),
        cmocka_unit_test(test_deep_path),
        cmocka_unit_test(test_each_function_has_one_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
