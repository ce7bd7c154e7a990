// SPDX-License-Identifier: MIT

// Profiles as one: calls laid upon walked trees.

#include "merge_fixture.h"

// _start calls main, which calls compare through a sort that calls itself; compare calls leaf.
enum { START = 0x100, MAIN = 0x200, COMPARE = 0x300, LEAF = 0x400, SORT = 0x1000 };

static struct profile *walked(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned exe = make_module(profile, "/bin/app"), lib = make_module(profile, "/lib/libc.so");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t start = make_frame(profile, tree, 0, 0, AT(exe, START));
    uint32_t main_ = make_frame(profile, tree, start, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t sort = make_frame(profile, tree, main_, AT(exe, MAIN + 9), AT(lib, SORT));
    uint32_t deep = make_frame(profile, tree, sort, AT(lib, SORT + 5), AT(lib, SORT));
    uint32_t compare = make_frame(profile, tree, sort, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t deep_compare = make_frame(profile, tree, deep, AT(lib, SORT + 9), AT(exe, COMPARE));
    make_statement(profile, tree, main_, AT(exe, MAIN + 4), 100);
    make_statement(profile, tree, compare, AT(exe, COMPARE + 4), 200);
    make_statement(profile, tree, deep_compare, AT(exe, COMPARE + 4), 600);
    set_frame(profile, tree, compare, 2); // returns
    return profile;
}

static struct profile *followed(void)
{
    struct profile *profile = make_profile("calls", "calls", 1);
    make_text(&profile->tracker, "calls");
    unsigned lib = make_module(profile, "/lib/libc.so"), exe = make_module(profile, "/bin/app");
    unsigned tree = make_tree(profile, make_process(profile, 2, 0, "app"), 0);
    uint32_t main_ = make_frame(profile, tree, 0, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t compare = make_frame(profile, tree, main_, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t leaf = make_frame(profile, tree, compare, AT(exe, COMPARE + 9), AT(exe, LEAF));
    set_frame(profile, tree, main_, 1);
    set_frame(profile, tree, compare, 1001);
    set_frame(profile, tree, leaf, 5);
    return profile;
}

static void check_shape(struct profile *merged)
{
    assert_string_equal(merged->tracker, "walk+calls");
    assert_int_equal(merged->metric_count, 2);
    assert_string_equal(merged->metrics[0].name, "cpu");
    assert_int_equal(merged->tree_count, 1);
    assert_int_equal(sum(merged, "calls", false), 1007);
    assert_int_equal(sum(merged, "cpu", false), 2);
    uint32_t start = child(merged, 0, 0, START), main_ = child(merged, 0, start, MAIN);
    uint32_t sort = child(merged, 0, main_, SORT), deep = child(merged, 0, sort, SORT);
    uint32_t compare = child(merged, 0, sort, COMPARE);
    uint32_t deep_compare = child(merged, 0, deep, COMPARE);
    assert_int_equal(value(merged, 0, start, "calls"), 0);
    assert_int_equal(value(merged, 0, main_, "calls"), 1);
    assert_int_equal(value(merged, 0, sort, "calls"), 0);
    // A quarter of the time, a quarter of the calls; nothing is lost by rounding.
    assert_in_range(value(merged, 0, compare, "calls"), 250, 251);
    assert_int_equal(value(merged, 0, compare, "calls") + value(merged, 0, deep_compare, "calls"),
                     1001);
    // It was never sampled: it goes to the costlier one.
    assert_int_equal(value(merged, 0, child(merged, 0, deep_compare, LEAF), "calls"), 5);
}

static void check_laid(struct profile *merged)
{
    check_shape(merged);
    assert_int_equal(sum(merged, "cpu", true), 900);
}

static void calls_are_laid_upon_walked_trees(void **state)
{
    (void)state;
    struct profile *time = walked(), *calls = followed();
    struct profile *merged = merge2(time, calls), *reversed = merge2(calls, time);
    check_laid(merged);
    check_laid(reversed);
    struct profile *twice = merge2(merged, calls);
    assert_int_equal(twice->metrics[0].runs, 1);
    assert_int_equal(twice->metrics[1].runs, 2);
    assert_int_equal(sum(twice, "calls", false), 2014);
    assert_int_equal(twice->trees[0].count, merged->trees[0].count);
    profile_free(twice);
    profile_free(merged);
    profile_free(reversed);
    profile_free(time);
    profile_free(calls);
}

// Time on top of calls: frames of libraries, which samples have seen, are those of the walk.
static void samples_of_both_meet(void **state)
{
    (void)state;
    struct profile *time = walked(), *calls = followed();
    struct profile_tree *tree = &calls->trees[0];
    unsigned lib = MODULE_FIRST_FILE, exe = MODULE_FIRST_FILE + 1;
    calls->metrics = realloc(calls->metrics, 2 * sizeof *calls->metrics);
    calls->metrics[1] = (struct profile_metric){0};
    make_text(&calls->metrics[1].name, "cpu");
    make_text(&calls->metrics[1].unit, "ns");
    make_text(&calls->metrics[1].source, "test");
    uint64_t *values = calloc((size_t)tree->count * 2 + 8, sizeof *values);
    for (uint32_t i = 0; i < tree->count; i++)
        values[2 * i] = tree->values[i];
    free(tree->values);
    tree->values = values;
    tree->nodes = realloc(tree->nodes, (tree->count + 4) * sizeof *tree->nodes);
    uint32_t sort = tree->count++, line = tree->count++, own = tree->count++;
    tree->nodes[sort] = (struct profile_node){1, AT(exe, MAIN + 9), AT(lib, SORT)};
    tree->nodes[line] = (struct profile_node){sort, AT(lib, SORT + 2), 0};
    tree->nodes[own] = (struct profile_node){2, AT(exe, COMPARE + 4), 0};
    values[2 * line + 1] = 50;
    values[2 * own + 1] = 70;
    calls->metric_count = 2;
    struct profile *merged = merge2(time, calls);
    check_shape(merged);
    assert_int_equal(sum(merged, "cpu", true), 900 + 120);
    uint32_t at = child(merged, 0, child(merged, 0, child(merged, 0, 0, START), MAIN), SORT);
    // The sort is there once, with the new line; the line of compare is one that was there.
    assert_int_equal(merged->trees[0].count, time->trees[0].count + 2);
    const struct profile_node *last = &merged->trees[0].nodes[merged->trees[0].count - 1];
    assert_int_equal(last->parent, at);
    assert_int_equal(place_offset(last->site), SORT + 2);
    profile_free(merged);
    profile_free(time);
    profile_free(calls);
}

static void calls_alone_add_up(void **state)
{
    (void)state;
    struct profile *one = followed(), *other = followed();
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->trees[0].count, one->trees[0].count);
    assert_int_equal(sum(merged, "calls", false), 2014);
    assert_string_equal(merged->tracker, "calls");
    profile_free(merged);
    profile_free(one);
    profile_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_laid_upon_walked_trees),
        cmocka_unit_test(samples_of_both_meet),
        cmocka_unit_test(calls_alone_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
