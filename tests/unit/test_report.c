// SPDX-License-Identifier: MIT

// A report as text, letter by letter.

#include "analyze/report/name_set.h"
#include "report_fixture.h"
#include <sys/wait.h>

static void test_a_tree_shows_each_function_under_its_caller(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    expect(fixture_options(), plain,
           HEAD "call tree by cpu: each function under its caller; total is with all it calls\n"
                "\n"
                "  total            self  returns  function  where\n"
                "100.0 %  100 ns   1.0 %           main      main.c:10\n"
                " 57.0 %   57 ns   3.0 %        2  |- b      b.c:30\n"
                " 54.0 %   54 ns  54.0 %       70  | `- c    c.c:40\n"
                " 42.0 %   42 ns   2.0 %        1  `- a      a.c:20\n"
                " 40.0 %   40 ns  40.0 %        7    `- c    c.c:40\n"
                "\n"
                "returns: how often the frame was seen to return between samples; not a count of "
                "calls.\n" NOTE
                "More: --view callers (who calls the costly functions), --focus NAME (from a "
                "function down), --lines, 'cairn help report'.\n");
    struct report_options options = fixture_options();
    options.build.sites = options.build.lines = true;
    options.least = 3;
    expect_table(options, drawn,
                 "  total            self  returns  function            where\n"
                 "100.0 %  100 ns   1.0 %           main                main.c:10\n"
                 " 57.0 %   57 ns   3.0 %        2  ├─ b                called at main.c:12\n"
                 "  3.0 %    3 ns   3.0 %           │ ├─ line b.c:33\n"
                 " 54.0 %   54 ns  54.0 %       70  │ └─ c              called at b.c:33\n"
                 " 50.0 %   50 ns  50.0 %           │   ├─ line c.c:41\n"
                 "  4.0 %    4 ns   4.0 %           │   └─ line c.c:42\n"
                 " 42.0 %   42 ns   2.0 %        1  └─ a                called at main.c:11\n"
                 " 40.0 %   40 ns  40.0 %        7    └─ c              called at a.c:22\n"
                 " 40.0 %   40 ns  40.0 %               └─ line c.c:41\n");
    fixture_end();
}

static void test_hidden_is_said(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct report_options options = fixture_options();
    options.least = 41;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "1 path below 41 %, 40.0 % in all, has no row of its own"));
    assert_non_null(strstr(text, "`- a"));
    free(text);
    options = fixture_options();
    options.depth = 2;
    text = fixture_report(options);
    assert_non_null(strstr(text, "2 paths deeper than 2 calls, 94.0 % in all, have no row of "));
    assert_null(strstr(text, "- c"));
    free(text);
    fixture_end();
}

static void test_callers_and_flat(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct report_options options = fixture_options();
    options.view = VIEW_CALLERS;
    options.focus = fixture_pattern("^[bc]$");
    expect_table(options, plain,
                 " total           self  returns  function     where\n"
                 "94.0 %  94 ns  94.0 %       77  c            c.c:40\n"
                 "54.0 %  54 ns  54.0 %       70  |- b < main  b.c:30\n"
                 "40.0 %  40 ns  40.0 %        7  `- a < main  a.c:20\n"
                 "57.0 %  57 ns   3.0 %        2  b < main     b.c:30\n");
    options = fixture_options();
    options.view = VIEW_FLAT;
    expect_table(options, plain,
                 "  total            self  returns  function  where\n"
                 " 94.0 %   94 ns  94.0 %       77  c         c.c:40\n"
                 " 57.0 %   57 ns   3.0 %        2  b         b.c:30\n"
                 " 42.0 %   42 ns   2.0 %        1  a         a.c:20\n"
                 "100.0 %  100 ns   1.0 %           main      main.c:10\n");
    options.by = FLAT_LINE;
    options.sort_given = true;
    options.sort = ORDER_TOTAL;
    expect_table(options, plain,
                 " total           self  function  where\n"
                 "90.0 %  90 ns  90.0 %  c         c.c:41\n"
                 "57.0 %  57 ns   3.0 %  b         b.c:33\n"
                 "57.0 %  57 ns          main      main.c:12\n"
                 "42.0 %  42 ns          main      main.c:11\n"
                 "40.0 %  40 ns          a         a.c:22\n"
                 " 4.0 %   4 ns   4.0 %  c         c.c:42\n"
                 " 2.0 %   2 ns   2.0 %  a         a.c:23\n"
                 " 1.0 %   1 ns   1.0 %  main      main.c:13\n");
    options = fixture_options();
    options.view = VIEW_FLAT;
    options.by = FLAT_PROCESS;
    expect_table(options, plain,
                 "  total          process\n"
                 "100.0 %  100 ns  prog [100]\n");
    fixture_end();
}

static void test_questions_without_an_answer_are_refused(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct report_options options = fixture_options();
    options.focus = fixture_pattern("nowhere");
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "matches 'nowhere'"));
    free(fixture_error);
    options = fixture_options();
    options.through = (struct pattern_list){{fixture_pattern("^a$"), fixture_pattern("^b$")}, 2};
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "goes through '^b$'"));
    free(fixture_error);
    options = fixture_options();
    options.metric = "bytes";
    assert_null(fixture_report(options));
    assert_string_equal(fixture_error, "this profile has no metric 'bytes'; it has cpu");
    free(fixture_error);
    options.metric = "cpu,waiting";
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "waiting is wall less cpu: it needs a profile of both"));
    free(fixture_error);
    options = fixture_options();
    options.build.process = 4711;
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "process 4711 is not in this profile, which has prog"));
    free(fixture_error);
    fixture_process(4711, "idle");
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "process 4711 was not sampled"));
    free(fixture_error);
    fixture_analysis()->profile->processes[1].merged_into = 0;
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "try --process 100"));
    free(fixture_error);
    options = fixture_options();
    options.build.thread = fixture_pattern("nobody");
    assert_null(fixture_report(options));
    assert_non_null(
        strstr(fixture_error, "no thread matches 'nobody'; the profile has main thread"));
    fixture_end();
}

static void test_list_of_threads(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    place_t worker = fixture_function(PROGRAM, 0x2000, "worker", 50);
    for (uint32_t tid = 201; tid <= 202; tid++) {
        uint32_t frame = fixture_frame(fixture_tree(worker, tid), 0, worker, 0);
        fixture_statement(frame, worker + 0x10, 50000);
    }
    struct report_options options = fixture_options();
    options.view = VIEW_FLAT;
    options.by = FLAT_THREAD;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "99.9 %  100 us  worker (2)\n"));
    assert_non_null(strstr(text, " 0.1 %  100 ns  main thread\n")); // to say so takes as much room
    assert_null(strstr(text, "left out"));
    assert_non_null(strstr(text, "More: --per-thread=tid (each thread of a name), --thread NAME"));
    free(text);
    options.least = 1;
    text = fixture_report(options);
    assert_non_null(strstr(text, "1 row below 1 %"));
    free(text);
    fixture_end();
}

static void test_notes_on_symbols_are_for_functions(void **state)
{
    (void)state;
    static char *notes[] = {"something was lost"};
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    analysis->profile->notes = notes;
    analysis->profile->note_count = 1;
    struct report_options options = fixture_options();
    options.view = VIEW_FLAT;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "Note: something was lost\n"));
    assert_non_null(strstr(text, "Note: no debug file for libc.so.6\n"));
    free(text);
    options.by = FLAT_PROCESS;
    text = fixture_report(options);
    assert_non_null(strstr(text, "Note: something was lost\n"));
    assert_null(strstr(text, "no debug file"));
    free(text);
    fixture_end();
}

static void test_live_memory_is_not_all_allocations(void **state)
{
    (void)state;
    static struct profile_metric live = {.name = "live", .unit = "bytes", .source = "malloc"};
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    analysis->profile->metrics = &live;
    char *text = fixture_report(fixture_options());
    assert_non_null(strstr(text, "./prog -x: 100 B of live, 1 process, 1 thread\n"));
    free(text);
    live.name = "alloc";
    text = fixture_report(fixture_options());
    assert_non_null(strstr(text, ": 100 B of alloc in 6 allocations, 1 process"));
    free(text);
    fixture_end();
}

static void test_head_counts_what_was_chosen(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    fixture_process(200, "other");
    uint32_t frame = fixture_frame(fixture_tree(0, 200), 0, place_make(PROGRAM, 0x1100), 0);
    fixture_statement(frame, place_make(PROGRAM, 0x1110), 7);
    fixture_process(201, "other"); // its cost is in the tree of the one before
    struct profile_process *folded = &analysis->profile->processes[2];
    folded->merged_into = 1;
    folded->thread_starts = 3;
    char *text = fixture_report(fixture_options());
    assert_non_null(strstr(text, ": 107 ns of cpu in 7 samples, 3 processes, 5 threads\n"));
    free(text);
    struct report_options options = fixture_options();
    options.build.process_name = fixture_pattern("prog");
    text = fixture_report(options);
    assert_non_null(strstr(text, ": 100 ns of cpu in 6 samples, 1 process, 1 thread\n"));
    free(text);
    options.build.process_name = fixture_pattern("other");
    text = fixture_report(options);
    assert_non_null(strstr(text, ": 7 ns of cpu in 1 sample, 2 processes, 4 threads\n"));
    free(text);
    options = fixture_options();
    options.build.tid = 100;
    text = fixture_report(options);
    assert_non_null(strstr(text, ": 100 ns of cpu in 6 samples, 1 process, 1 thread\n"));
    free(text);
    fixture_end();
}

static void test_incomplete_paths_are_said(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    uint64_t *verdicts = analysis->profile->trees[0].stats.verdicts;
    verdicts[VERDICT_MARKER] = 700;
    verdicts[VERDICT_NO_CFI] = 1;
    verdicts[VERDICT_BAD_PC] = 2;
    char *text = fixture_report(fixture_options());
    assert_null(strstr(text, "Cut short")); // hardly any
    free(text);
    verdicts[VERDICT_NO_CFI] = 200;
    verdicts[VERDICT_BAD_PC] = 100;
    text = fixture_report(fixture_options());
    assert_non_null(strstr(text, "Cut short: 30.0 % of the paths, most by no-unwind-table;"));
    assert_null(strstr(text, "Guessed"));
    free(text);
    verdicts[VERDICT_GUESSED] = 1000;
    text = fixture_report(fixture_options());
    assert_non_null(strstr(text, "Cut short: 15.0 % of the paths"));
    assert_non_null(strstr(text, "Guessed: 50.0 % of the paths"));
    free(text);
    fixture_end();
}

static void test_a_command_is_quoted_for_a_shell(void **state)
{
    (void)state;
    char *words[] = {"/bin/jq", "-n",      "[.. | 1]",   "",  "it's",
                     "grün",    "--a=b,c", "two\nlines", NULL};
    char *text = analysis_command(words);
    assert_string_equal(text, "/bin/jq -n '[.. | 1]' '' 'it'\\''s' grün --a=b,c 'two lines'");
    free(text);
}

static void test_nothing_sampled(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_tree(0, 100);
    analysis->profile->complete = true;
    char *text = fixture_report(fixture_options());
    assert_non_null(strstr(text, "nothing was sampled, "));
    assert_non_null(strstr(text, "-e wall"));
    free(text);
    analysis->profile->metrics[0].name = "wall"; // what waits is seen when it has waited
    text = fixture_report(fixture_options());
    assert_null(strstr(text, "-e wall"));
    free(text);
    analysis->profile->complete = false;
    text = fixture_report(fixture_options());
    assert_non_null(strstr(text, "nothing was sampled yet\n"));
    free(text);
    analysis->profile->metrics[0].name = "cpu";
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_shows_each_function_under_its_caller),
        cmocka_unit_test(test_hidden_is_said),
        cmocka_unit_test(test_callers_and_flat),
        cmocka_unit_test(test_questions_without_an_answer_are_refused),
        cmocka_unit_test(test_list_of_threads),
        cmocka_unit_test(test_notes_on_symbols_are_for_functions),
        cmocka_unit_test(test_live_memory_is_not_all_allocations),
        cmocka_unit_test(test_head_counts_what_was_chosen),
        cmocka_unit_test(test_incomplete_paths_are_said),
        cmocka_unit_test(test_a_command_is_quoted_for_a_shell),
        cmocka_unit_test(test_nothing_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
