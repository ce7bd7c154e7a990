// SPDX-License-Identifier: MIT

// Callers that an earlier row shows are not shown again.

#include "analyze_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static place_t function_of(const char *name)
{
    static const char *const names[] = {"main",   "run",  "other", "exec",
                                        "insert", "sort", "check", "copy"};
    unsigned i = 0;
    while (strcmp(names[i], name) != 0)
        i++;
    return fixture_function(PROGRAM, 0x1000 * (i + 1), name, 1);
}

// A path from the root to `copy`, which costs so much there.
static void add_path(uint32_t root, const char *const *names, uint64_t cost)
{
    place_t site = 0, function = 0;
    for (; *names; names++) {
        function = function_of(*names);
        root = fixture_frame(root, site, function, 0);
        site = function + 1;
    }
    fixture_statement(root, function + 1, cost);
}

static void start(void)
{
    static const char *const insert[] = {"main", "run", "exec", "insert", "copy", NULL};
    static const char *const sort[] = {"main", "run", "exec", "sort", "copy", NULL};
    static const char *const check[] = {"main", "other", "exec", "check", "copy", NULL};
    fixture_start();
    uint32_t root = fixture_tree(0, 1);
    add_path(root, insert, 50);
    add_path(root, sort, 30);
    add_path(root, check, 20);
}

static struct report_options callers_of_copy(void)
{
    struct report_options options = fixture_options();
    options.view = VIEW_CALLERS;
    options.focus = fixture_pattern("copy");
    return options;
}

static void what_is_known_is_cut(void **state)
{
    (void)state;
    start();
    char *text = fixture_report(callers_of_copy());
    assert_non_null(strstr(text, "  |- insert < exec < run < main "));
    assert_non_null(strstr(text, "  |- sort < exec < ... "));
    assert_non_null(strstr(
        text, "< ...: from there on, the callers are those of the first row with that function."));
    free(text);
    fixture_end();
}

// `exec` is above, but others have called it there.
static void what_differs_is_shown(void **state)
{
    (void)state;
    start();
    char *text = fixture_report(callers_of_copy());
    assert_non_null(strstr(text, "  `- check < exec < other < main "));
    free(text);
    fixture_end();
}

static void wide_shows_all(void **state)
{
    (void)state;
    start();
    struct report_options options = callers_of_copy();
    options.wide = true;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "  |- sort < exec < run < main "));
    assert_null(strstr(text, "< ..."));
    free(text);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_is_cut),
        cmocka_unit_test(what_differs_is_shown),
        cmocka_unit_test(wide_shows_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
