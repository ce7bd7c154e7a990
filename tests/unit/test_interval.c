// SPDX-License-Identifier: MIT

// The part of a recording between two readings of its profile: profile/merge/interval.h.

#include "merge_fixture.h"
#include "profile/merge/interval.h"

static struct profile *interval_of(struct profile *before, struct profile *now)
{
    char *error = NULL;
    struct profile *interval = profile_interval(before, now, &error);
    if (!interval)
        fail_msg("%s", error ? error : "out of memory");
    return interval;
}

static struct profile *begin(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000);
    make_module(profile, "/bin/app");
    make_process(profile, 100, 1, "app");
    profile->duration_ns = 10;
    profile->start_realtime_ns = 1000;
    return profile;
}

enum { APP = 3 }; // the first module

static uint32_t frame(struct profile *profile, unsigned tree, uint32_t parent, uint64_t offset)
{
    return make_frame(profile, tree, parent, place_make(APP, offset + 1), place_make(APP, offset));
}

static void cost(struct profile *profile, unsigned tree, uint32_t parent, uint64_t amount)
{
    make_statement(profile, tree, parent, place_make(APP, 0x777), amount);
}

static void test_differences_alone_are_left(void **state)
{
    (void)state;
    struct profile *before = begin(), *now = begin();
    unsigned tree = make_tree(before, 0, 0);
    uint32_t main_frame = frame(before, tree, 0, 0x100);
    cost(before, tree, main_frame, 5);
    cost(before, tree, frame(before, tree, main_frame, 0x200), 10);
    // In another order, as after the profile was written anew.
    tree = make_tree(now, 0, 0);
    main_frame = frame(now, tree, 0, 0x100);
    cost(now, tree, frame(now, tree, main_frame, 0x300), 4);
    cost(now, tree, frame(now, tree, main_frame, 0x200), 10);
    cost(now, tree, main_frame, 8);
    now->duration_ns = 30;
    struct profile *interval = interval_of(before, now);
    assert_int_equal(interval->tree_count, 1);
    assert_int_equal(sum(interval, "cpu", true), 7);
    const uint32_t top = child(interval, 0, 0, 0x100);
    child(interval, 0, top, 0x300);
    for (uint32_t i = 0; i < interval->trees[0].count; i++)
        assert_true(interval->trees[0].nodes[i].function != place_make(APP, 0x200));
    assert_int_equal(interval->start_realtime_ns, 1010);
    assert_int_equal(interval->duration_ns, 20);
    assert_int_equal(interval->process_count, 1);
    assert_int_equal(interval->trees[0].stats.samples, 1);
    assert_int_equal(interval->processes[0].samples, 1);
    profile_free(interval);
    profile_free(before);
    profile_free(now);
}

static void test_the_first_interval_is_all_there_is(void **state)
{
    (void)state;
    struct profile *now = begin();
    const unsigned tree = make_tree(now, 0, 0);
    cost(now, tree, frame(now, tree, 0, 0x100), 5);
    struct profile *interval = interval_of(NULL, now);
    assert_int_equal(sum(interval, "cpu", true), 5);
    assert_int_equal(interval->start_realtime_ns, 1000);
    assert_int_equal(interval->duration_ns, 10);
    profile_free(interval);
    profile_free(now);
}

static void test_nothing_new_is_no_tree(void **state)
{
    (void)state;
    struct profile *before = begin(), *now = begin();
    for (unsigned i = 0; i < 2; i++) {
        struct profile *profile = i ? now : before;
        const unsigned tree = make_tree(profile, 0, 0);
        cost(profile, tree, frame(profile, tree, 0, 0x100), 5);
    }
    struct profile *interval = interval_of(before, now);
    assert_int_equal(interval->tree_count, 0);
    profile_free(interval);
    profile_free(before);
    profile_free(now);
}

// A process has ended, and its trees were folded into those of another one of the same program.
static void test_folding_moves_nothing(void **state)
{
    (void)state;
    struct profile *before = begin(), *now = begin();
    make_process(before, 101, 100, "app");
    make_process(now, 101, 100, "app");
    unsigned tree = make_tree(before, 0, 0);
    cost(before, tree, frame(before, tree, 0, 0x100), 5);
    tree = make_tree(before, 1, 0);
    cost(before, tree, frame(before, tree, 0, 0x100), 7);
    tree = make_tree(now, 0, 0);
    cost(now, tree, frame(now, tree, 0, 0x100), 13);
    now->processes[1].merged_into = 0;
    struct profile *interval = interval_of(before, now);
    assert_int_equal(sum(interval, "cpu", true), 1);
    profile_free(interval);
    profile_free(before);
    profile_free(now);
}

static void name_threads(struct profile *profile, unsigned tree, const char *name)
{
    snprintf(profile->trees[tree].name, sizeof profile->trees[tree].name, "%s", name);
}

static void test_threads_that_change_their_name_keep_their_cost(void **state)
{
    (void)state;
    struct profile *before = begin(), *now = begin();
    const place_t start = place_make(APP, 0x900);
    unsigned tree = make_tree(before, 0, start);
    name_threads(before, tree, "starting");
    cost(before, tree, frame(before, tree, 0, 0x100), 5);
    tree = make_tree(now, 0, start);
    name_threads(now, tree, "working");
    cost(now, tree, frame(now, tree, 0, 0x100), 9);
    struct profile *interval = interval_of(before, now);
    assert_int_equal(sum(interval, "cpu", true), 4);
    profile_free(interval);
    profile_free(before);
    profile_free(now);
}

// A hot tree: one metric, and by how much it may be too large.
static struct profile *begin_hot(void)
{
    struct profile *profile = begin();
    profile->metrics = realloc(profile->metrics, 2 * sizeof *profile->metrics);
    profile->metrics[1] = (struct profile_metric){.name = strdup("cpu error"),
                                                  .unit = strdup("error"),
                                                  .period = 1000,
                                                  .source = strdup("tree")};
    profile->metric_count = 2;
    return profile;
}

static void hot_cost(struct profile *profile, unsigned tree, uint32_t parent, uint64_t amount,
                     uint64_t error)
{
    const uint32_t node = make_node(profile, tree, parent, 0, 0);
    profile->trees[tree].values[(size_t)node * 2] = amount;
    profile->trees[tree].values[(size_t)node * 2 + 1] = error;
}

// One context has lost its counter to another one, which goes on counting from there.
static void test_intervals_of_trees_that_forget_add_up(void **state)
{
    (void)state;
    struct profile *before = begin_hot(), *now = begin_hot();
    unsigned tree = make_tree(before, 0, 0);
    hot_cost(before, tree, frame(before, tree, 0, 0x100), 50, 0);
    hot_cost(before, tree, frame(before, tree, 0, 0x200), 10, 2);
    tree = make_tree(now, 0, 0);
    hot_cost(now, tree, frame(now, tree, 0, 0x100), 55, 0);
    hot_cost(now, tree, frame(now, tree, 0, 0x300), 13, 10);
    struct profile *interval = interval_of(before, now);
    assert_int_equal(sum(interval, "cpu", true), 8);
    assert_int_equal(sum(interval, "cpu error", true), 0);
    const uint32_t taken = child(interval, 0, 0, 0x300);
    for (uint32_t i = 0; i < interval->trees[0].count; i++) {
        const struct profile_node *node = &interval->trees[0].nodes[i];
        assert_true(node->function != place_make(APP, 0x200));
        if (node->parent == taken)
            assert_int_equal(value(interval, 0, i, "cpu"), 3);
    }
    profile_free(interval);
    profile_free(before);
    profile_free(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences_alone_are_left),
        cmocka_unit_test(test_the_first_interval_is_all_there_is),
        cmocka_unit_test(test_nothing_new_is_no_tree),
        cmocka_unit_test(test_folding_moves_nothing),
        cmocka_unit_test(test_threads_that_change_their_name_keep_their_cost),
        cmocka_unit_test(test_intervals_of_trees_that_forget_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
