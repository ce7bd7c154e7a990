// SPDX-License-Identifier: MIT

// Reports of wall and CPU time: waiting is what is left of the one without the other.

#include "analyze_fixture.h"
#include "base/memory.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct profile_metric metrics[] = {
    {.name = "cpu", .unit = "ns", .period = 1000, .rate_requested = 1000, .source = "test"},
    {.name = "wall", .unit = "ns", .period = 1000, .rate_requested = 1000, .source = "test"},
};

// The fixture's program, where c waits if a calls it. By chance, b has less wall time than CPU
// time: wall is 169 in all, 142 of it in a; cpu is 100 in all, 42 of it in a.
static void start(void)
{
    static const uint64_t wall[] = {0, 2, 3, 140, 20, 4}; // of the statements
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct profile *profile = analysis->profile;
    profile->metrics = metrics;
    profile->metric_count = 2;
    struct profile_tree *tree = &profile->trees[0];
    uint64_t *values = memory_array((size_t)tree->count * 2, sizeof *values);
    for (uint32_t i = 0, statement = 0; i < tree->count; i++) {
        if (tree->nodes[i].function != 0 || i == 0)
            continue;
        values[i * 2] = tree->values[i];
        values[i * 2 + 1] = wall[statement++];
    }
    free(tree->values);
    tree->values = values;
}

static void no_share_exceeds_the_whole(void **state)
{
    (void)state;
    start();
    struct report_options options = fixture_options();
    options.metric = "waiting";
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, ": 69 ns of waiting in 6 samples"));
    assert_non_null(strstr(text, "100.0 %  69 ns  100.0 %  main > a > c"));
    assert_null(strstr(text, "144.9 %"));
    free(text);
    options.view = VIEW_FLAT;
    text = fixture_report(options);
    assert_non_null(strstr(text, "100.0 %  69 ns  100.0 %  c "));
    free(text);
    options.view = VIEW_CALLERS;
    text = fixture_report(options);
    assert_null(strstr(text, "144.9 %"));
    free(text);
    fixture_end();
}

static void programs_are_told_of_it(void **state)
{
    (void)state;
    start();
    struct report_options options = fixture_options();
    options.json = true;
    char *text = fixture_report(options);
    fixture_check_json(text,
                       "assert [m[\"name\"] for m in d[\"metrics\"]] == [\"cpu\", \"wall\", "
                       "\"waiting\"]\n"
                       "assert d[\"metrics\"][2][\"unit\"] == \"ns\" and d[\"metric\"] == \"cpu\"\n"
                       "n = {x[\"function\"]: x for x in d[\"nodes\"]}\n"
                       "assert n[\"main\"][\"total\"] == [100, 169, 69]\n"
                       "assert n[\"main\"][\"self\"] == [1, 0, 0]\n"
                       "assert n[\"a\"][\"total\"] == [42, 142, 69]\n"
                       "assert n[\"b\"][\"total\"] == [57, 27, 0]\n");
    free(text);
    options.metric = "waiting";
    options.view = VIEW_FLAT;
    text = fixture_report(options);
    fixture_check_json(text, "assert d[\"metric\"] == \"waiting\" and d[\"whole\"] == 69\n"
                             "assert d[\"nodes\"][0][\"function\"] == \"c\"\n"
                             "assert d[\"nodes\"][0][\"self\"] == [94, 164, 69]\n");
    free(text);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_share_exceeds_the_whole),
        cmocka_unit_test(programs_are_told_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
