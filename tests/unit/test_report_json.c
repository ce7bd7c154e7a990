// SPDX-License-Identifier: MIT

// Reports for programs, and what is said of the whole recording.

#include "analyze/summary/sample_warning.h"
#include "analyze/summary/summary.h"
#include "export/export.h"
#include "report_fixture.h"

static void test_tree_json(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    fixture_function(PROGRAM, 0x5000, "odd \"name\\ \xff\n", 1);
    add_chain();
    uint32_t odd = fixture_frame(fixture_tree(0, 102), 0, place_make(PROGRAM, 0x5000), 0);
    fixture_statement(odd, place_make(PROGRAM, 0x5001), 1);
    struct report_options options = fixture_options();
    options.json = options.build.sites = options.build.lines = true;
    char *text = fixture_report(options);
    fixture_check_json(
        text,
        "n = d[\"nodes\"]\n"
        "assert d[\"metrics\"] == [{\"name\": \"cpu\", \"unit\": \"ns\"}]\n"
        "assert n[0][\"parent\"] is None and n[0][\"total\"] == [201]\n"
        "assert all(x[\"parent\"] < x[\"id\"] for x in n[1:])\n"
        "assert [x[\"id\"] for x in n] == list(range(len(n)))\n"
        "for x in n:\n"
        "    below = sum(y[\"total\"][0] for y in n if y[\"parent\"] == x[\"id\"])\n"
        "    assert x[\"total\"][0] == x[\"self\"][0] + below, x\n"
        "    assert sum(l[\"self\"][0] for l in x[\"lines\"]) == x[\"self\"][0], x\n"
        "    assert x[\"calls\"] is None and x[\"error\"] is None\n"
        "c = [x for x in n if x[\"function\"] == \"c\"]\n"
        "assert sorted(x[\"returns\"] for x in c) == [7, 70]\n"
        "assert sorted(x[\"call_line\"] for x in c) == [22, 33]\n"
        "assert c[0][\"module\"] == \"prog\" and c[0][\"file\"] == \"/src/c.c\"\n"
        "assert c[0][\"line\"] == 40\n"
        "assert [x[\"kind\"] for x in n if x[\"function\"] == \"swap<int>\"] == [\"inlined\"]\n"
        "assert any(x[\"function\"].startswith(\"odd \\\"name\\\\ \") for x in n)\n");
    free(text);
    fixture_end();
}

static void test_flat_json(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct report_options options = fixture_options();
    options.json = true;
    options.view = VIEW_FLAT;
    char *text = fixture_report(options);
    fixture_check_json(text,
                       "n = {x[\"function\"]: x for x in d[\"nodes\"]}\n"
                       "assert set(n) == {\"main\", \"a\", \"b\", \"c\"}\n"
                       "assert all(x[\"parent\"] is None for x in d[\"nodes\"])\n"
                       "assert n[\"c\"][\"self\"] == n[\"c\"][\"total\"] == [94]\n"
                       "assert n[\"c\"][\"returns\"] == 77 and n[\"main\"][\"total\"] == [100]\n");
    free(text);
    fixture_end();
}

static void test_folded_lines_add_up_to_the_total(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    place_t strange = fixture_function(PROGRAM, 0x6000, "strange;name", 1);
    fixture_statement(fixture_frame(fixture_tree(strange, 101), 0, strange, 0), strange, 7);
    fixture_statement(0, 0, 5);
    struct build_options options = {0};
    analysis_resolve(analysis, &options);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &options);
    calltree_order(tree, 0, ORDER_TOTAL);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(
        export_folded.write(out, &(struct export_input){.analysis = analysis, .tree = tree}), 0);
    fclose(out);
    assert_string_equal(text, "main 1\n"
                              "main;b 3\n"
                              "main;b;c 54\n"
                              "main;a 2\n"
                              "main;a;c 40\n"
                              "strange:name 7\n"
                              "<no call path> 5\n");
    free(text);
    calltree_free(tree);
    fixture_end();
}

static void test_info_has_the_numbers_of_the_recording(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct live_stats *stats = &analysis->profile->trees[0].stats;
    stats->verdicts[VERDICT_COMPLETE] = 2;
    stats->verdicts[VERDICT_MARKER] = 2;
    stats->verdicts[VERDICT_NO_CFI] = 1;
    stats->verdicts[VERDICT_GUESSED] = 1;
    stats->frames_stack = 60;
    stats->frames_walked = 12;
    stats->handler_ns = 6000;
    stats->handler_histogram[live_bucket(1000)] = 6;
    struct profile_totals totals;
    profile_sum(analysis->profile, &totals);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    summary_print_json(out, analysis, &totals);
    fclose(out);
    fixture_check_json(
        text, "w = d[\"walks\"]\n"
              "assert (w[\"complete\"], w[\"marker\"], w[\"truncated\"]) == (2, 2, 1)\n"
              "assert w[\"guessed\"] == 1 and abs(w[\"guessed_pct\"] - 16.66667) < 0.001\n"
              "assert abs(w[\"complete_pct\"] - 66.66667) < 0.001\n"
              "assert w[\"reasons\"] == {\"no-unwind-table\": 1}\n"
              "assert d[\"frames_per_sample\"] == {\"stack\": 10, \"walked\": 2}\n"
              "assert d[\"node_bytes\"] == 24 and d[\"nodes\"] == 12 and d[\"samples\"] == 6\n"
              "assert d[\"handler_ns\"][\"mean\"] == 1000\n"
              "assert 800 < d[\"handler_ns\"][\"p99\"] < 1300\n"
              "m = [x for x in d[\"modules\"] if x[\"path\"] == \"/bin/prog\"]\n"
              "assert m[0][\"symbols\"] == \"dwarf\"\n"
              "assert d[\"events\"][0][\"source\"] == \"test\"\n"
              "assert d[\"command\"] == [\"./prog\", \"-x\"] and d[\"format\"] == 1\n"
              "assert \"encode\" not in d\n");
    free(text);
    out = open_memstream(&text, &bytes);
    summary_print(out, &plain, analysis, &totals);
    fclose(out);
    assert_non_null(strstr(text, "66.67 % complete: 2 walked to the root, 2 to the marker, 1 cut"));
    assert_non_null(strstr(text, "16.67 % guessed: 1 led"));
    assert_non_null(strstr(text, "functions and lines  /bin/prog\n"));
    free(text);
    fixture_end();
}

static void expect_few(const struct profile_metric *metric, uint64_t samples, const char *expected)
{
    char *text = sample_warning(metric, samples);
    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
    free(text);
}

// Who reads shares of a few samples is told what they are worth, and what would be better.
static void test_few_samples(void **state)
{
    (void)state;
    struct profile_metric cpu = {.name = "cpu", .unit = "ns", .rate_requested = 1000};
    expect_few(&cpu, 99,
               "few samples: by chance, what is shown as 50 % may be anything from 40 to 60 %; "
               "run longer, add runs up ('cairn merge'), or record with -F 10000");
    expect_few(&cpu, 100, NULL);
    expect_few(&cpu, 0, NULL); // nothing is shown, and why is said elsewhere
    cpu = (struct profile_metric){.name = "cpu", .unit = "ns", .period = 100000};
    expect_few(&cpu, 1,
               "few samples: by chance, what is shown as 50 % may be anything from 5 to 95 %; "
               "run longer, or add runs up ('cairn merge')");
    const struct profile_metric calls = {.name = "calls", .unit = "calls", .period = 1};
    expect_few(&calls, 1, NULL);
    const struct profile_metric counted = {.name = "allocated", .unit = "bytes", .period = 1};
    expect_few(&counted, 1, NULL);
    const struct profile_metric sampled = {.name = "allocated", .unit = "bytes", .period = 65536};
    expect_few(&sampled, 24,
               "few samples: by chance, what is shown as 50 % may be anything from 31 to 69 %; "
               "run longer, add runs up ('cairn merge'), or record with a shorter period");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_json),
        cmocka_unit_test(test_flat_json),
        cmocka_unit_test(test_folded_lines_add_up_to_the_total),
        cmocka_unit_test(test_info_has_the_numbers_of_the_recording),
        cmocka_unit_test(test_few_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
