// SPDX-License-Identifier: MIT
#include "bounded_fixture.h"
#include "tree_nodes.h"

// The paper's running example (section 5.1): M calls A more than once and A calls D more than once,
// A has a node below M and another below D, and no sample sees B. Three samples in a row see the
// same functions, and only the weight of the edge tells whether it was one call of C or three.
static void test_the_papers_example_grows_as_it_says(void **state)
{
    (void)state;
    for (unsigned calls_of_c = 1; calls_of_c <= 3; calls_of_c += 2) {
        struct thread *thread = new_thread(TREE_BOUNDED, 16, 64 << 10, TREE_PURGE_AGE);
        call(thread, 'M');
        call(thread, 'A');
        call(thread, 'D');
        sample(thread, 1); // M A D
        back(thread, 2);
        call(thread, 'A');
        call(thread, 'B');
        back(thread, 1);
        call(thread, 'D');
        call(thread, 'A');
        sample(thread, 1); // M A D A, all but M new
        back(thread, 3);
        call(thread, 'D');
        sample(thread, 1); // M D
        for (unsigned i = 0; i < 3; i++) {
            if (i < calls_of_c)
                call(thread, 'C');
            sample(thread, 1); // M D C
            if (i + 1 < calls_of_c)
                back(thread, 1);
        }
        expect(thread, "M", 0, 1);
        expect(thread, "MA", 0, 2);
        expect(thread, "MAD", 1, 2);
        expect(thread, "MADA", 1, 1);
        expect(thread, "MD", 1, 1);
        expect(thread, "MDC", 3, calls_of_c);
        assert_int_equal(tree_nodes(&thread->arena, thread->tree), 7);
        assert_int_equal(thread->detached, 0);
        free_thread(thread);
    }
}

// Figure 9: recursion is kept in full, each activation has its own context.
static void test_each_activation_of_a_recursion_has_its_context(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 16, 64 << 10, TREE_PURGE_AGE);
    call(thread, 'M');
    call(thread, 'A');
    call(thread, 'B');
    call(thread, 'A');
    call(thread, 'B');
    sample(thread, 1);
    back(thread, 2);
    call(thread, 'C');
    sample(thread, 1);
    back(thread, 1);
    sample(thread, 1);
    expect(thread, "MAB", 1, 1);
    expect(thread, "MABA", 0, 1);
    expect(thread, "MABAB", 1, 1);
    expect(thread, "MABC", 1, 1);
    free_thread(thread);
}

// Figure 10: a string of calls that is longer than K is not attached, and once the stack is back
// where it was known, all is well again.
static void test_calls_longer_than_the_limit_are_detached(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 4, 64 << 10, TREE_PURGE_AGE);
    call(thread, 'M');
    call(thread, 'A');
    sample(thread, 1);
    back(thread, 1);
    for (const char *name = "BCDEFG"; *name; name++)
        call(thread, *name);
    sample(thread, 1); // M [B C] D E F G
    expect(thread, "-D", 0, 1);
    expect(thread, "-DEFG", 1, 1);
    assert_int_equal(thread->detached, 1);
    call(thread, 'H'); // the detached part is marked, too
    sample(thread, 1);
    expect(thread, "-DEFGH", 1, 1);
    back(thread, 7);
    call(thread, 'A');
    sample(thread, 1);
    expect(thread, "MA", 2, 2);
    assert_int_equal(thread->detached, 1);
    free_thread(thread);
}

// Just K frames reach: as in Figure 7, the return address of the K-th is still looked at.
static void test_just_the_limit_reaches_a_known_frame(void **state)
{
    (void)state;
    for (unsigned depth = 1; depth < 10; depth++) {
        struct thread *thread = new_thread(TREE_BOUNDED, 5, 64 << 10, TREE_PURGE_AGE);
        for (unsigned i = 0; i < depth; i++)
            call(thread, (char)('A' + i));
        sample(thread, 1);
        assert_int_equal(thread->detached, depth > 5);
        assert_int_equal(tree_nodes(&thread->arena, thread->tree), (depth < 5 ? depth : 5) + 1);
        free_thread(thread);
    }
}

static void test_calls_from_two_sites_are_two_nodes(void **state)
{
    (void)state;
    struct thread *thread = new_thread(TREE_BOUNDED, 16, 64 << 10, TREE_PURGE_AGE);
    call(thread, 'M');
    call_from(thread, letter('M') + 9, letter('A'));
    ref_t one = sample(thread, 2);
    back(thread, 1);
    call_from(thread, letter('M') + 17, letter('A'));
    ref_t other = sample(thread, 3);
    assert_int_not_equal(one, other);
    back(thread, 1);
    call_from(thread, letter('M') + 9, letter('A'));
    assert_int_equal(sample(thread, 5), one);
    assert_int_equal(node_at(thread, one)->value[0], 7);
    assert_int_equal(node_at(thread, other)->value[1], 3);
    free_thread(thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_papers_example_grows_as_it_says),
        cmocka_unit_test(test_each_activation_of_a_recursion_has_its_context),
        cmocka_unit_test(test_calls_longer_than_the_limit_are_detached),
        cmocka_unit_test(test_just_the_limit_reaches_a_known_frame),
        cmocka_unit_test(test_calls_from_two_sites_are_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
