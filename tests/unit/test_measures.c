// SPDX-License-Identifier: MIT

// Measures of accuracy against numbers computed by hand.

#include "compare_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void weigh(struct compare_tree *tree, uint32_t context, uint64_t exact, uint64_t approx)
{
    tree->contexts[context].weight[EXACT] = exact;
    tree->contexts[context].weight[APPROX] = approx;
}

// A context; a side that has it not is told by UINT64_MAX.
static uint32_t context(struct compare_tree *tree, uint32_t parent, const char *name,
                        uint64_t exact, uint64_t approx)
{
    uint32_t function = compare_function(tree, name, 1);
    uint32_t made = compare_child(tree, parent, 0, function, exact == UINT64_MAX ? APPROX : EXACT);
    if (exact != UINT64_MAX && approx != UINT64_MAX)
        assert_int_equal(compare_child(tree, parent, 0, function, APPROX), made);
    weigh(tree, made, exact == UINT64_MAX ? 0 : exact, approx == UINT64_MAX ? 0 : approx);
    return made;
}

static const uint64_t none = UINT64_MAX;

// The program of ACCT's Figure 6: a calls b 10 times, which calls c 1,000 times in all.
static void the_wrong_strategy_of_figure_6(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    uint32_t a = context(tree, 0, "a", 0, 0);
    uint32_t b = context(tree, a, "b", 10, 10);
    context(tree, b, "c", 1000, 10); // increment all new edges, every 100th call
    struct compare_result result;
    compare_measure(tree, &usual_measures, &result);
    assert_int_equal(result.total[EXACT], 1010);
    assert_near(result.scale, 50.5);
    assert_near(result.overlap, 1);                          // every context is there,
    assert_near(result.weighted_overlap, 10.0 / 1010 + 0.5); // but the weights are wrong
    assert_near(result.coverage[0], 1);
    assert_int_equal(result.hot_edges[0], 1);
    assert_int_equal(result.hot_edges[1], 2); // 10 is exactly a hundredth
    assert_near(result.error.max, 4950);
    assert_near(result.error.avg, (4950 + 49.5) / 2);
    assert_near(result.distortion, 2 * (50 - 1000 / 1010.0));
    assert_true(isnan(result.pearson)); // both edges always have the same weight
    assert_int_equal(result.top_count, 2);
    assert_int_equal(result.false_negatives, 0);
    compare_result_free(&result);

    // The right one, at one in ten.
    weigh(tree, b, 10, 1);
    weigh(tree, b + 1, 1000, 100);
    compare_measure(tree, &usual_measures, &result);
    assert_near(result.weighted_overlap, 1);
    assert_near(result.error.max, 0);
    assert_near(result.pearson, 1);
    assert_near(result.spearman, 1);
    assert_near(result.distortion, 0);
    compare_result_free(&result);
    compare_tree_free(tree);
}

static void what_is_missing_is_measured(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    uint32_t main_ = context(tree, 0, "main", 1, 0);
    context(tree, main_, "hot", 500, 480);
    context(tree, main_, "warm", 300, none);
    context(tree, main_, "cool", 149, 200);
    context(tree, main_, "cold", 50, none);
    context(tree, main_, "wrong", none, 320);
    struct compare_options options = {
        .threshold_count = 3, .thresholds = {0.5, 0.1, 1}, .phi = 0.1, .edges = 3, .scale = 1};
    struct compare_result result;
    compare_measure(tree, &options, &result);
    assert_int_equal(result.total[EXACT], 1000);
    assert_int_equal(result.contexts[EXACT], 5);
    assert_int_equal(result.common, 3);
    assert_near(result.overlap, 0.650); // 1 + 500 + 149
    assert_near(result.weighted_overlap, 0.48 + 0.149);
    assert_near(result.coverage[0], 0.5);     // hot, but not warm
    assert_near(result.coverage[1], 2.0 / 4); // hot, cool; not warm, cold
    assert_near(result.coverage[2], 1);
    assert_int_equal(result.uncovered, 2);
    assert_near(result.uncovered_max, 60);
    assert_near(result.uncovered_avg, 35);
    assert_int_equal(result.hot[EXACT], 3);
    assert_int_equal(result.hot[APPROX], 3);
    assert_int_equal(result.false_positives, 1);
    assert_int_equal(result.false_negatives, 1);
    assert_int_equal(result.error.contexts, 3); // hot, cool, and warm, all of which is missing
    assert_near(result.error.max, 100);
    assert_near(result.error.avg, (4 + 51 / 149.0 * 100 + 100) / 3);
    assert_int_equal(result.false_error.contexts, 0); // *wrong* has no true weight to compare with
    assert_near(result.distortion, 0.1 + 2 + 30 + 5.1 + 5 + 32);
    // Of 500, 300, 149 and 480, 0, 200.
    double mx = 949 / 3.0, my = 680 / 3.0;
    double xy = (500 - mx) * (480 - my) + (300 - mx) * (0 - my) + (149 - mx) * (200 - my);
    double xx = pow(500 - mx, 2) + pow(300 - mx, 2) + pow(149 - mx, 2);
    double yy = pow(480 - my, 2) + pow(0 - my, 2) + pow(200 - my, 2);
    assert_near(result.pearson, xy / sqrt(xx * yy));
    assert_near(result.spearman, 0.5); // ranks 3 2 1 and 3 1 2
    assert_string_equal(tree->functions[result.functions[0].function].name, "wrong");
    compare_result_free(&result);
    compare_tree_free(tree);
}

// What is seen by chance is wrong by many times its weight: that is told apart.
static void what_is_taken_to_be_hot_is_measured_apart(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    context(tree, 0, "hot", 900, 720);
    context(tree, 0, "cold", 20, 200);
    context(tree, 0, "colder", 80, 80);
    struct compare_options options = {.phi = 0.1, .scale = 1};
    struct compare_result result;
    compare_measure(tree, &options, &result);
    assert_int_equal(result.false_positives, 1);
    assert_int_equal(result.error.contexts, 1);
    assert_near(result.error.avg, 20);
    assert_int_equal(result.false_error.contexts, 1);
    assert_near(result.false_error.avg, 900);
    assert_near(result.false_error.max, 900);
    compare_result_free(&result);
    compare_tree_free(tree);
}

// Of a hot tree, a report shows hot contexts and their callers.
static void pruned_contexts_are_missing_but_stay_in_the_total(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    uint32_t caller = context(tree, 0, "caller", 1, 1);
    context(tree, caller, "hot", 90, 90);
    uint32_t cold = context(tree, 0, "cold", 5, 5);
    context(tree, cold, "colder", 4, 4);
    assert_int_equal(compare_prune(tree, APPROX, 10), 2);
    struct compare_options options = {.phi = 0.1};
    struct compare_result result;
    compare_measure(tree, &options, &result);
    assert_int_equal(result.total[APPROX], 100);
    assert_near(result.scale, 1);
    assert_int_equal(result.contexts[APPROX], 2);
    assert_near(result.overlap, 0.91);
    assert_int_equal(result.uncovered, 2);
    assert_int_equal(result.contexts[EXACT], 4);
    compare_result_free(&result);
    compare_tree_free(tree);
}

static void equal_ranks_are_shared(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    context(tree, 0, "a", 30, 10);
    context(tree, 0, "b", 20, 10);
    context(tree, 0, "c", 10, 4);
    struct compare_result result;
    compare_measure(tree, &usual_measures, &result);
    assert_near(result.spearman, 1.5 / sqrt(2 * 1.5)); // ranks 3 2 1 and 2.5 2.5 1
    compare_result_free(&result);
    compare_tree_free(tree);
}

static void an_empty_approximation_is_the_worst(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    context(tree, 0, "a", 30, none);
    struct compare_result result;
    compare_measure(tree, &usual_measures, &result);
    assert_near(result.overlap, 0);
    assert_near(result.weighted_overlap, 0);
    assert_near(result.coverage[0], 0);
    assert_near(result.uncovered_max, 100);
    assert_near(result.scale, 1);
    assert_int_equal(result.false_negatives, 1);
    assert_near(result.distortion, 100);
    compare_result_free(&result);
    compare_tree_free(tree);
}

static void only_the_hottest_edges_are_correlated(void **state)
{
    (void)state;
    struct compare_tree *tree = compare_tree_new();
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        // Below the 40 hottest, the approximation is the wrong way round.
        context(tree, 0, name, 1000 - i, i < 40 ? 1000 - i : i);
    }
    struct compare_result result;
    compare_measure(tree, &usual_measures, &result);
    assert_int_equal(result.top_count, 40);
    assert_near(result.pearson, 1);
    compare_result_free(&result);
    compare_tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wrong_strategy_of_figure_6),
        cmocka_unit_test(what_is_missing_is_measured),
        cmocka_unit_test(what_is_taken_to_be_hot_is_measured_apart),
        cmocka_unit_test(pruned_contexts_are_missing_but_stay_in_the_total),
        cmocka_unit_test(equal_ranks_are_shared),
        cmocka_unit_test(an_empty_approximation_is_the_worst),
        cmocka_unit_test(only_the_hottest_edges_are_correlated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
