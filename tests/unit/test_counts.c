// SPDX-License-Identifier: MIT

// Reports of profiles that count calls: alone, and beside a cost, where they give cost per call.

#include "analyze_fixture.h"
#include "base/memory.h"
#include "export/export.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct profile_metric metrics[] = {
    {.name = "cpu", .unit = "ns", .period = 1000, .rate_requested = 1000, .source = "test"},
    {.name = "calls", .unit = "calls", .period = 1, .source = "entry-hooks"},
};

// The fixture's program: main calls a once and b twice, a calls c 7 times, b calls c 70 times.
// What frames count becomes calls; statements keep their cost, if that is asked for.
static struct analysis *start(bool with_cost)
{
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct profile *profile = analysis->profile;
    profile->metrics = with_cost ? metrics : metrics + 1;
    profile->metric_count = with_cost ? 2 : 1;
    profile->tracker = with_cost ? "walk+calls" : "calls";
    struct profile_tree *tree = &profile->trees[0];
    unsigned count = profile->metric_count;
    uint64_t *values = memory_array(tree->count * count, sizeof *values);
    for (uint32_t i = 0; i < tree->count; i++) {
        bool statement = tree->nodes[i].function == 0;
        if (statement && with_cost)
            values[i * count] = tree->values[i];
        else if (!statement)
            values[i * count + count - 1] = tree->values[i];
    }
    values[1 * count + count - 1] = 1; // main
    free(tree->values);
    tree->values = values;
    return analysis;
}

static void calls_are_a_metric_of_frames(void **state)
{
    (void)state;
    struct analysis *analysis = start(false);
    struct build_options options = {0};
    build_resolve(analysis->functions, analysis->profile, &options);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &options);
    assert_int_equal(calltree_total(tree, 0, 0), 81);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main"), 0), 1);
    assert_int_equal(calltree_total(tree, fixture_find(tree, "main;a"), 0), 8);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main;b"), 0), 2);
    assert_int_equal(calltree_total(tree, fixture_find(tree, "main;b"), 0), 72);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main;b;c"), 0), 70);
    assert_int_equal(calltree_returns(tree, fixture_find(tree, "main;b;c")), 0);
    calltree_free(tree);
    fixture_end();
}

static void an_ignored_function_takes_its_calls_along(void **state)
{
    (void)state;
    struct analysis *analysis = start(false);
    struct pattern *ignored = fixture_pattern("^a$");
    struct build_options options = {.ignore = &ignored, .ignore_count = 1};
    build_resolve(analysis->functions, analysis->profile, &options);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &options);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main"), 0), 1);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main;c"), 0), 7);
    assert_int_equal(calltree_total(tree, 0, 0), 80);
    calltree_free(tree);
    fixture_end();
}

static void text_of_calls(void **state)
{
    (void)state;
    start(false);
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(text);
    assert_non_null(strstr(text, "./prog -x: 81 calls, 1 process, 1 thread\n"));
    assert_non_null(strstr(text, "below is with the calls that it makes"));
    assert_non_null(strstr(text, "below        self  calls  function"));
    assert_non_null(strstr(text, "88.9 %  72   2.5 %      2  |- b "));
    assert_non_null(strstr(text, "86.4 %  70  86.4 %     70  | `- c "));
    assert_null(strstr(text, "returns"));
    assert_null(strstr(text, "per call"));
    free(text);
    fixture_end();
}

static void text_of_cost_per_call(void **state)
{
    (void)state;
    start(true);
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(text);
    assert_non_null(strstr(text, "total            self  calls  per call  function"));
    // b: 57 ns in 2 calls; c under it: 54 ns in 70.
    assert_non_null(strstr(text, "57.0 %   57 ns   3.0 %      2     29 ns"));
    assert_non_null(strstr(text, "54.0 %   54 ns  54.0 %     70    0.8 ns"));
    assert_null(strstr(text, "returns"));
    free(text);
    options.view = VIEW_FLAT;
    options.by = FLAT_FUNCTION;
    text = fixture_report(options);
    // c: 94 ns in 77.
    assert_non_null(strstr(text, "94.0 %   94 ns  94.0 %     77    1.2 ns  c"));
    free(text);
    fixture_end();
}

// Three runs of time, one of calls: a third of the time is what those calls cost.
static void runs_need_not_be_as_many(void **state)
{
    (void)state;
    start(true);
    metrics[0].runs = 3;
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "57.0 %   57 ns   3.0 %      2    9.5 ns"));
    assert_non_null(strstr(text, "(cost of 3 runs, calls of 1)"));
    assert_non_null(strstr(text, ", 3 runs, "));
    metrics[0].runs = 0;
    free(text);
    fixture_end();
}

static void check_json(struct report_options options, const char *code)
{
    options.json = true;
    char *text = fixture_report(options), command[2048];
    assert_non_null(text);
    snprintf(command, sizeof command,
             "python3 -c 'import json, sys; x = json.load(sys.stdin)\n"
             "n = x[\"nodes\"]; f = lambda name: [y for y in n if y[\"function\"] == name]\n%s'",
             code);
    FILE *out = popen(command, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(pclose(out), 0);
    free(text);
}

static void json_of_calls(void **state)
{
    (void)state;
    start(false);
    check_json(fixture_options(),
               "assert x[\"metrics\"] == [{\"name\": \"calls\", \"unit\": \"calls\"}]\n"
               "assert [y[\"calls\"] for y in f(\"c\")] == [70, 7]\n"
               "assert f(\"b\")[0][\"total\"] == [72] and f(\"b\")[0][\"self\"] == [2]\n"
               "assert all(y[\"returns\"] is None for y in n)\n"
               "assert n[0][\"calls\"] is None\n");
    fixture_end();
    start(true);
    check_json(fixture_options(),
               "b = f(\"b\")[0]; assert b[\"calls\"] == 2 and b[\"per_call\"] == [28.5, None]\n"
               "assert b[\"self\"] == [3, 2] and b[\"total\"] == [57, 72]\n"
               "assert b[\"returns\"] == 0\n");
    struct report_options options = fixture_options();
    options.view = VIEW_CALLERS;
    options.metric = "calls";
    check_json(options,
               "c = f(\"c\")[0]; assert c[\"calls\"] == 77\n"
               "assert [y[\"calls\"] for y in n if y[\"parent\"] == c[\"id\"]] == [70, 7]\n");
    fixture_end();
}

static void folded_paths_have_calls(void **state)
{
    (void)state;
    struct analysis *analysis = start(true);
    struct build_options options = {0};
    build_resolve(analysis->functions, analysis->profile, &options);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &options);
    calltree_order(tree, 1, ORDER_TOTAL);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct export_input input = {.analysis = analysis, .tree = tree, .metric = 1};
    assert_int_equal(export_folded.write(out, &input), 0);
    fclose(out);
    assert_string_equal(text, "main 1\nmain;b 2\nmain;b;c 70\nmain;a 1\nmain;a;c 7\n");
    free(text);
    calltree_free(tree);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_a_metric_of_frames),
        cmocka_unit_test(an_ignored_function_takes_its_calls_along),
        cmocka_unit_test(text_of_calls),
        cmocka_unit_test(text_of_cost_per_call),
        cmocka_unit_test(runs_need_not_be_as_many),
        cmocka_unit_test(json_of_calls),
        cmocka_unit_test(folded_paths_have_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
