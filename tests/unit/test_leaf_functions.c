// SPDX-License-Identifier: MIT
// Which functions call nothing of interest, by their code alone.
#include "leaf_forms.h"
#include "patch/functions/leaf_code.h"
#include "patch/functions/leaf_functions.h"
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

static bool ask_at(uintptr_t function)
{
    assert_int_equal(patch_begin(), 0);
    const bool leaf = leaf_function_is(function, count, NULL);
    patch_end();
    return leaf;
}

static bool ask(void (*function)(void))
{
    told = 0;
    return ask_at((uintptr_t)function);
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
    assert_false(ask_at((uintptr_t)leaf_forms.leaf + 1));
    assert_false(ask_at(16));
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

static bool ask_code(void (*function)(void))
{
    assert_int_equal(patch_begin(), 0);
    const bool leaf = leaf_code_is((uintptr_t)function);
    assert_int_equal(leaf_code_is((uintptr_t)function), leaf); // again
    patch_end();
    return leaf;
}

static void test_leaf_functions_without_tables(void **state)
{
    (void)state;
    assert_true(ask_code(leaf_forms.bare));
    assert_true(ask_code(leaf_forms.bare_above_bare));
    assert_false(ask_code(leaf_forms.bare_above_leaf));
    assert_false(ask_code(leaf_forms.bare_through_pointer));
    assert_false(ask_code(leaf_forms.bare_falls));
    // With a table, or no code.
    assert_false(ask_code(leaf_forms.leaf));
    assert_false(ask_code(NULL));
    assert_false(ask_at((uintptr_t)leaf_forms.bare));
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
        cmocka_unit_test(test_leaf_functions_without_tables),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
