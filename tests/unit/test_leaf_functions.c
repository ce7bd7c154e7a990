// SPDX-License-Identifier: MIT
// Which functions call nothing of interest, by their code alone.
#include "leaf_forms.h"
#include "patch/leaf_functions.h"
#include "sites_support.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static unsigned told;

static void count(uintptr_t function, void *context)
{
    (void)context;
    assert_true(function != 0);
    told++;
}

static bool ask(void (*function)(void))
{
    told = 0;
    return leaf_function_is((uintptr_t)function, count, NULL);
}

static void test_leaf_functions(void **state)
{
    (void)state;
    assert_true(ask(leaf_forms.leaf));
    assert_int_equal(told, 1);
    assert_true(ask(leaf_forms.leaf));
    assert_int_equal(told, 0); // once
    assert_true(ask(leaf_forms.three_up));
    assert_int_equal(told, 3); // with what it calls
    assert_true(ask(leaf_forms.two_up));
    assert_int_equal(told, 0);
    assert_true(ask(leaf_forms.jumps));
    assert_true(ask(leaf_forms.system_call));
}

static void test_functions_that_are_no_leaves(void **state)
{
    (void)state;
    assert_false(ask(leaf_forms.four_up));
    assert_false(ask(leaf_forms.itself));
    assert_false(ask(leaf_forms.there));
    assert_false(ask(leaf_forms.and_back));
    assert_false(ask(leaf_forms.through_pointer));
    assert_false(ask(leaf_forms.jump_through_pointer));
    assert_false(ask(leaf_forms.above_pointer));
    assert_false(ask(leaf_forms.jump_to_pointer));
    assert_int_equal(told, 0);
    // Not where a function begins, or no function at all.
    assert_false(leaf_function_is((uintptr_t)leaf_forms.leaf + 1, count, NULL));
    assert_false(leaf_function_is(16, count, NULL));
}

static void test_height_is_asked_for_from_below(void **state)
{
    (void)state;
    // four_up was refused because it is too high: that says nothing of what it calls.
    assert_false(ask(leaf_forms.four_up));
    assert_true(ask(leaf_forms.three_up));
}

static void test_height_is_not_that_of_what_jumps_there(void **state)
{
    (void)state;
    assert_true(ask(leaf_forms.jumps_from_high));
    assert_true(ask(leaf_forms.above_shared));
}

static int start(void **state)
{
    (void)state;
    support_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaf_functions),
        cmocka_unit_test(test_functions_that_are_no_leaves),
        cmocka_unit_test(test_height_is_asked_for_from_below),
        cmocka_unit_test(test_height_is_not_that_of_what_jumps_there),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
