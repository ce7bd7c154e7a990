// SPDX-License-Identifier: MIT

// Trees lined up that come from other runs, builds and trackers, and what is told of them.

#include "analyze/compare/compare_show.h"
#include "base/memory.h"
#include "compare_fixture.h"
#include "export/bars.h"
#include "make_profile.h"
#include "merge_from_memory.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define AT(module, offset) place_make(module, offset)
struct opened {
    struct analysis analysis[2];
    struct alignment alignment;
    struct compare_result result;
};

static struct analysis open_profile(struct profile *profile)
{
    struct analysis analysis = {.profile = profile, .symbols = symbols_new(profile, NULL)};
    analysis.functions = functions_new(profile, analysis.symbols);
    return analysis;
}

static void open_both(struct opened *opened, struct profile *exact, struct profile *approx)
{
    opened->analysis[EXACT] = open_profile(exact);
    opened->analysis[APPROX] = open_profile(approx);
}

static void close_both(struct opened *opened)
{
    for (unsigned side = 0; side < 2; side++) {
        functions_free(opened->analysis[side].functions);
        symbols_free(opened->analysis[side].symbols);
    }
}

static struct opened compared(struct profile *exact, struct profile *approx)
{
    struct opened opened;
    open_both(&opened, exact, approx);
    char *error = NULL;
    if (compare_align(&opened.alignment, &opened.analysis[EXACT], &opened.analysis[APPROX], NULL,
                      &error) < 0)
        fail_msg("%s", error);
    compare_measure(opened.alignment.tree, &usual_measures, &opened.result);
    return opened;
}

static void finish(struct opened *opened)
{
    compare_result_free(&opened->result);
    alignment_free(&opened->alignment);
    close_both(opened);
}

static char *refused(struct profile *exact, struct profile *approx, const char *metric)
{
    struct opened opened;
    open_both(&opened, exact, approx);
    char *error = NULL;
    assert_int_equal(compare_align(&opened.alignment, &opened.analysis[EXACT],
                                   &opened.analysis[APPROX], metric, &error),
                     -1);
    close_both(&opened);
    return error;
}

static void assert_perfect(const struct compare_result *result)
{
    assert_near(result->overlap, 1);
    assert_near(result->weighted_overlap, 1);
    assert_near(result->coverage[0], 1);
    assert_near(result->coverage[1], 1);
    assert_int_equal(result->uncovered + result->false_positives + result->false_negatives, 0);
    assert_near(result->error.max, 0);
    assert_near(result->pearson, 1);
    assert_near(result->spearman, 1);
    assert_near(result->distortion, 0);
}

static void count_calls(struct profile *profile, unsigned tree, uint32_t node, uint64_t calls)
{
    profile->trees[tree].values[(size_t)node * profile->metric_count] = calls;
}

enum { START = 0x100, MAIN = 0x200, COMPARE = 0x300, LEAF = 0x400, SORT = 0x1000 };

// Calls of main, compare and leaf, of which the first is called by libc and the second by its sort.
static struct profile *followed(uint64_t scale)
{
    struct profile *profile = make_profile("calls", "calls", 1);
    make_text(&profile->tracker, "calls");
    unsigned exe = make_module(profile, "/bin/app"), lib = make_module(profile, "/lib/libc.so");
    unsigned tree = make_tree(profile, make_process(profile, 2, 0, "app"), 0);
    uint32_t main_ = make_frame(profile, tree, 0, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t compare = make_frame(profile, tree, main_, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t leaf = make_frame(profile, tree, compare, AT(exe, COMPARE + 9), AT(exe, LEAF));
    uint32_t again = make_frame(profile, tree, compare, AT(exe, COMPARE + 99), AT(exe, LEAF));
    count_calls(profile, tree, main_, scale);
    count_calls(profile, tree, compare, 1000 * scale);
    count_calls(profile, tree, leaf, 300 * scale);
    count_calls(profile, tree, again, 20 * scale);
    return profile;
}

// The same by a walk that sampled every n-th call: samples lie in statements. Modules come in
// another order, as they do in another run.
static struct profile *walked(const char *metric, const char *unit)
{
    struct profile *profile = make_profile(metric, unit, 59);
    unsigned lib = make_module(profile, "/lib/libc.so"), exe = make_module(profile, "/bin/app");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t start = make_frame(profile, tree, 0, 0, AT(exe, START));
    uint32_t main_ = make_frame(profile, tree, start, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t sort = make_frame(profile, tree, main_, AT(exe, MAIN + 9), AT(lib, SORT));
    uint32_t deep = make_frame(profile, tree, sort, AT(lib, SORT + 5), AT(lib, SORT));
    uint32_t near = make_frame(profile, tree, sort, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t far = make_frame(profile, tree, deep, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t leaf = make_frame(profile, tree, far, AT(exe, COMPARE + 9), AT(exe, LEAF));
    make_statement(profile, tree, near, AT(exe, COMPARE), 40);
    make_statement(profile, tree, far, AT(exe, COMPARE), 60);
    make_statement(profile, tree, leaf, AT(exe, LEAF), 30);
    make_statement(profile, tree, start, AT(exe, START), 7);   // above all that is known
    make_statement(profile, tree, deep, AT(lib, SORT + 1), 5); // in a library: main's
    return profile;
}

static void a_profile_is_perfect_to_itself(void **state)
{
    (void)state;
    struct profile *profiles[] = {followed(1), walked("cpu", "ns")};
    for (unsigned i = 0; i < 2; i++) {
        struct opened opened = compared(profiles[i], profiles[i]);
        assert_perfect(&opened.result);
        assert_int_equal(opened.alignment.left_out[0] + opened.alignment.left_out[1], 0);
        finish(&opened);
        profile_free(profiles[i]);
    }
}

static void a_multiple_is_perfect(void **state)
{
    (void)state;
    struct profile *one = followed(59), *other = followed(1);
    struct opened opened = compared(one, other);
    assert_perfect(&opened.result);
    assert_near(opened.result.scale, 59);
    finish(&opened);
    char *error = NULL;
    struct profile *both[] = {one, other};
    struct profile *merged = profile_merge(&(struct merge_source){2, merge_from_memory, both, NULL},
                                           MERGE_BY_PROGRAM, &error);
    assert_non_null(merged);
    opened = compared(one, merged);
    assert_perfect(&opened.result);
    assert_near(opened.result.scale, 59 / 60.0);
    finish(&opened);
    profile_free(merged);
    profile_free(one);
    profile_free(other);
}

// Counters of Space Saving have more than was charged. Scaled by their sum, those without an error
// would come out too small.
static void scaling_is_by_what_was_charged(void **state)
{
    (void)state;
    struct profile *exact = followed(10), *approx = followed(1);
    const uint32_t last = approx->trees[0].count - 1;
    count_calls(approx, 0, last, 20 + 500);
    approx->trees[0].hot.made_up = 500;
    struct opened opened = compared(exact, approx);
    assert_int_equal(opened.result.total[APPROX], 1321);
    assert_int_equal(opened.result.sum[APPROX], 1821);
    assert_near(opened.result.scale, 10);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

static void a_walked_tree_is_projected_on_calls(void **state)
{
    (void)state;
    struct profile *exact = followed(1), *approx = walked("calls", "calls");
    struct opened opened = compared(exact, approx);
    // _start and twice the sort.
    assert_int_equal(opened.alignment.left_out[APPROX], 3);
    assert_int_equal(opened.alignment.left_out[EXACT], 0);
    assert_int_equal(opened.result.outside[APPROX], 7);
    assert_int_equal(opened.result.total[EXACT], 1321);
    assert_int_equal(opened.result.total[APPROX], 135);
    // main, compare (once, though the walk had it twice), leaf; but not the other call of leaf.
    assert_int_equal(opened.result.common, 3);
    assert_int_equal(opened.result.uncovered, 1);
    assert_near(opened.result.uncovered_max, 2);
    assert_near(opened.result.overlap, 1301 / 1321.0);
    const struct compare_tree *tree = opened.alignment.tree;
    assert_int_equal(tree->contexts[opened.result.top[0]].weight[APPROX], 100);
    assert_int_equal(tree->contexts[opened.result.top[1]].weight[APPROX], 30);
    assert_string_equal(opened.alignment.sites[tree->contexts[opened.result.top[1]].site].where,
                        "file.c:49");
    finish(&opened);

    // The other way round, what the calls may have missed stays, but not what is above or between.
    opened = compared(approx, exact);
    assert_int_equal(opened.alignment.left_out[EXACT], 3);
    assert_int_equal(opened.result.outside[EXACT], 7);
    assert_near(opened.result.overlap, 1);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

// Samples on top of calls bring frames of libraries into the exact tree.
static void frames_without_calls_are_left_out_of_both(void **state)
{
    (void)state;
    struct profile *exact = followed(1), *approx = walked("calls", "calls");
    unsigned exe = MODULE_FIRST_FILE, lib = MODULE_FIRST_FILE + 1;
    uint32_t start = make_frame(exact, 0, 0, 0, AT(exe, START));
    make_frame(exact, 0, start, AT(exe, START + 2), AT(lib, SORT));
    uint32_t sort = make_frame(exact, 0, 1, AT(exe, MAIN + 9), AT(lib, SORT));
    make_statement(exact, 0, sort, AT(lib, SORT + 3), 9);
    struct opened opened = compared(exact, approx);
    assert_int_equal(opened.alignment.left_out[EXACT], 3);
    assert_int_equal(opened.alignment.left_out[APPROX], 3);
    assert_int_equal(opened.result.common, 3);
    assert_int_equal(opened.result.total[EXACT], 1330);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

static void calls_of_unknown_functions_do_not_count(void **state)
{
    (void)state;
    // A tree of calls that followed a library as well.
    struct profile *exact = followed(1), *approx = followed(1);
    uint32_t extra = make_frame(approx, 0, 1, AT(MODULE_FIRST_FILE, MAIN + 50),
                                AT(MODULE_FIRST_FILE + 1, 0x9000));
    count_calls(approx, 0, extra, 5000);
    struct opened opened = compared(exact, approx);
    assert_perfect(&opened.result);
    assert_int_equal(opened.alignment.left_out[APPROX], 1);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

static void same_trackers_are_compared_as_they_are(void **state)
{
    (void)state;
    struct profile *exact = walked("cpu", "ns"), *approx = walked("cpu", "ns");
    uint32_t extra = make_frame(approx, 0, 1, AT(MODULE_FIRST_FILE + 1, MAIN + 50),
                                AT(MODULE_FIRST_FILE, 0x9000));
    make_statement(approx, 0, extra, AT(MODULE_FIRST_FILE, 0x9001), 142);
    struct opened opened = compared(exact, approx);
    assert_int_equal(opened.result.false_positives, 1);
    assert_near(opened.result.overlap, 1);
    assert_near(opened.result.weighted_overlap, 0.5);
    assert_near(opened.result.distortion, 100);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

// Another build has its functions elsewhere: they are known by names, and calls by lines.
static void other_builds_are_lined_up_by_names(void **state)
{
    (void)state;
    struct profile *exact = followed(1), *approx = followed(1);
    approx->duration_ns = 1; // see symbols_at()
    moved_code[1] = 0x4000;
    approx->modules[MODULE_FIRST_FILE].build_id_bytes = 4;
    approx->modules[MODULE_FIRST_FILE + 1].build_id_bytes = 4;
    for (uint32_t i = 1; i < approx->trees[0].count; i++) {
        approx->trees[0].nodes[i].site += moved_code[1];
        approx->trees[0].nodes[i].function += moved_code[1];
    }
    struct opened opened = compared(exact, approx);
    assert_int_equal(opened.alignment.modules.by_names, 2);
    assert_int_equal(opened.alignment.modules.same_builds, 0);
    assert_perfect(&opened.result);
    finish(&opened);

    // The same build under another path is the same.
    memset(exact->modules[MODULE_FIRST_FILE].build_id, 7, 4);
    memset(approx->modules[MODULE_FIRST_FILE].build_id, 7, 4);
    exact->modules[MODULE_FIRST_FILE].build_id_bytes = 4;
    make_text(&approx->modules[MODULE_FIRST_FILE].path, "/opt/renamed");
    moved_code[1] = 0;
    for (uint32_t i = 1; i < approx->trees[0].count; i++) {
        approx->trees[0].nodes[i].site -= 0x4000;
        approx->trees[0].nodes[i].function -= 0x4000;
    }
    opened = compared(exact, approx);
    assert_int_equal(opened.alignment.modules.same_builds, 1);
    assert_perfect(&opened.result);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    struct profile *calls = followed(1), *time = walked("cpu", "ns"), *other = followed(1);
    make_text(&other->modules[MODULE_FIRST_FILE].path, "/bin/tool");
    char *error = refused(calls, time, NULL);
    assert_string_equal(error, "these profiles have no metric in common: the first has calls "
                               "(calls), the second cpu (ns)");
    free(error);
    error = refused(calls, other, NULL);
    assert_string_equal(error, "these are profiles of different programs: the first ran app, the "
                               "second tool");
    free(error);
    error = refused(calls, calls, "wall");
    assert_string_equal(error, "this profile has no metric 'wall'; it has calls");
    free(error);
    error = refused(calls, time, "calls,cpu");
    assert_string_equal(error, "calls is in calls, but cpu in ns");
    free(error);
    profile_free(calls);
    profile_free(time);
    profile_free(other);
}

// What is printed

static char *printed(const struct opened *opened, unsigned what)
{
    static char *const thresholds[] = {"0.1", "0.01"};
    struct comparison comparison = {.analysis = {&opened->analysis[0], &opened->analysis[1]},
                                    .path = {"dir/exact.out", "approx & co.out"},
                                    .alignment = &opened->alignment,
                                    .options = &usual_measures,
                                    .thresholds = thresholds,
                                    .result = &opened->result};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct text_style style = {0};
    if (what == 0)
        compare_print(out, &style, &comparison);
    else if (what == 1)
        compare_print_json(out, &comparison);
    else
        assert_int_equal(bars_write(out, &comparison), 0);
    fclose(out);
    return text;
}

// Runs a line of Python on a text; what it asserts must hold.
static void check_with_python(const char *text, const char *code)
{
    char command[2048];
    snprintf(command, sizeof command, "python3 -c '%s'", code);
    FILE *out = popen(command, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(pclose(out), 0);
}

static void text_json_and_picture_tell_the_same(void **state)
{
    (void)state;
    struct profile *exact = followed(1), *approx = walked("calls", "calls");
    struct opened opened = compared(exact, approx);
    char *text = printed(&opened, 0);
    assert_non_null(strstr(text, "exact:  dir/exact.out (app, tracker calls): 1,321 calls in 4 "
                                 "contexts\n"));
    assert_non_null(strstr(text, "98.5 %  of the exact weight is in"));
    assert_non_null(strstr(text, "3 frames of functions whose calls were not followed"));
    assert_non_null(strstr(text, "f2 > f3"));
    assert_non_null(strstr(text, "missing"));
    free(text);
    text = printed(&opened, 1);
    check_with_python(
        text, "import json, sys; x = json.load(sys.stdin)\n"
              "assert abs(x[\"overlap\"] - 1301 / 1321) < 1e-9\n"
              "c = x[\"hot_edge_coverage\"]\n"
              "assert c[\"0.1\"] == 1 and abs(c[\"0.01\"] - 2 / 3) < 1e-6 and len(c) == 2\n"
              "assert set(x[\"uncovered\"]) >= {\"max_pct\", \"avg_pct\"}\n"
              "assert x[\"false_positives\"] == 0 and x[\"false_negatives\"] == 1\n"
              "assert set(x[\"counter_error\"]) >= {\"max_pct\", \"avg_pct\"}\n"
              "assert x[\"correlation\"][\"edges\"] == 4 and x[\"correlation\"][\"pearson\"] > .9\n"
              "assert 0 < x[\"distortion\"] < 200\n"
              "e = x[\"hottest_edges\"]\n"
              "assert e[0][\"path\"] == \"f2;f3\" and e[0][\"approx\"] == 100\n"
              "assert e[2][\"approx\"] is None and e[2][\"caller\"] == \"f3\"\n");
    free(text);
    text = printed(&opened, 2);
    check_with_python(
        text, "import sys, xml.etree.ElementTree as t\n"
              "x = t.parse(sys.stdin).getroot(); n = \"{http://www.w3.org/2000/svg}\"\n"
              "g = x.findall(n + \"g\"); assert len(g) == 4\n"
              "b = [[float(r.get(\"height\")) for r in p.findall(n + \"rect\")[1:]] for p in g]\n"
              "assert b[0] == [300, 300] and b[1] == [90, 90] and b[2] == [6, 0], b\n"
              "assert \"approx & co.out\" in t.tostring(x, \"unicode\", \"text\")\n");
    free(text);
    finish(&opened);
    profile_free(exact);
    profile_free(approx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_is_perfect_to_itself),
        cmocka_unit_test(a_multiple_is_perfect),
        cmocka_unit_test(scaling_is_by_what_was_charged),
        cmocka_unit_test(a_walked_tree_is_projected_on_calls),
        cmocka_unit_test(frames_without_calls_are_left_out_of_both),
        cmocka_unit_test(calls_of_unknown_functions_do_not_count),
        cmocka_unit_test(same_trackers_are_compared_as_they_are),
        cmocka_unit_test(other_builds_are_lined_up_by_names),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
        cmocka_unit_test(text_json_and_picture_tell_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
