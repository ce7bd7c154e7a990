// SPDX-License-Identifier: MIT

// What is printed, letter by letter, and that programs can read what is meant for them.

#include "analyze/report/name_set.h"
#include "analyze/summary/sample_warning.h"
#include "analyze/summary/summary.h"
#include "analyze_fixture.h"
#include "export/export.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define NOTE "Note: no debug file for libc.so.6\n"
#define HEAD                                                                                       \
    "./prog -x: 100 ns of cpu in 6 samples, 1 process, 1 thread\n"                                 \
    "few samples: by chance, what is shown as 50 % may be anything from 19 to 81 %; run longer, "  \
    "add runs up ('cairn merge'), or record with -F 10000\n"

static void expect(struct report_options options, struct text_style style, const char *expected)
{
    char *text = fixture_styled_report(options, style);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

// The same, without what is the same below every table.
static void expect_table(struct report_options options, struct text_style style,
                         const char *expected)
{
    char *text = fixture_styled_report(options, style);
    assert_non_null(text);
    char *end = strstr(text, "\n\n");
    char *table = end ? end + 2 : text;
    end = strstr(table, "\n\n");
    if (end)
        end[1] = '\0';
    assert_string_equal(table, expected);
    free(text);
}

static const struct text_style plain, drawn = {.unicode = true};

static void test_tree(void **state)
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

// A recursion 31 deep, then a chain, an inlined function at its end.
static void add_chain(void)
{
    place_t deep = fixture_function(LIBRARY, 0x3000, "deep", 300);
    place_t bottom = fixture_function(LIBRARY, 0x3100, "bottom", 310);
    fixture_inline(bottom + 0x20, bottom + 0x60, "swap<int>", 70);
    uint32_t frame = fixture_frame(fixture_tree(deep, 101), 0, deep, 0);
    for (int i = 0; i < 30; i++)
        frame = fixture_frame(frame, deep + 0x11, deep, 0);
    frame = fixture_frame(frame, deep + 0x11, bottom, 9);
    fixture_statement(frame, bottom + 0x30, 90);
    fixture_statement(0, 0, 10);
}

static void test_chains(void **state)
{
    (void)state;
    fixture_start();
    add_chain();
    expect_table(fixture_options(), drawn,
                 " total           self  function                                 where\n"
                 "90.0 %  90 ns  90.0 %  deep ×31 › bottom › swap<int> [inlined]  inlined.h\n"
                 "10.0 %  10 ns  10.0 %  <no call path>\n");
    struct report_options options = fixture_options();
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "<no call path>: threads while they begin and end"));
    free(text);
    options.focus = fixture_pattern("^deep$"); // which leaves none
    text = fixture_report(options);
    assert_null(strstr(text, "<no call path>"));
    free(text);
    options = fixture_options();
    options.view = VIEW_FLAT;
    options.by = FLAT_THREAD; // which has no such row
    text = fixture_report(options);
    assert_null(strstr(text, "<no call path>"));
    free(text);
    // A thread that has the name of a function is none.
    options = fixture_options();
    options.build.threads = THREADS_BY_START;
    text = fixture_styled_report(options, (struct text_style){.width = 80});
    assert_non_null(strstr(text, "thread: deep\n"));
    assert_null(strstr(text, "deep ["));
    free(text);
    options = fixture_options();
    options.build.threads = THREADS_APART;
    options.fold = false;
    options.depth = 3;
    expect_table(options, plain,
                 "  total            self  function            where\n"
                 "100.0 %  100 ns          thread: deep [101]\n"
                 " 90.0 %   90 ns          |- deep             deep.c:300\n"
                 " 90.0 %   90 ns          | `- deep           deep.c:300\n"
                 " 10.0 %   10 ns  10.0 %  `- <no call path>\n");
    options = fixture_options();
    options.view = VIEW_CALLERS;
    expect_table(options, plain,
                 " total           self  function                                 where\n"
                 "90.0 %  90 ns  90.0 %  swap<int> [inlined] < bottom < deep x31  inlined.h\n"
                 "10.0 %  10 ns  10.0 %  <no call path>\n");
    fixture_end();
}

static void test_width(void **state)
{
    (void)state;
    fixture_start();
    place_t function = fixture_function(
        PROGRAM, 0x1000, "a::name<that, nobody, would, like, to, read>::in(full)", 1);
    fixture_statement(fixture_frame(fixture_tree(0, 1), 0, function, 0), function + 1, 1);
    struct text_style narrow = {.width = 70};
    char *text = fixture_styled_report(fixture_options(), narrow);
    for (char *line = strstr(text, "\n\n") + 2; *line && *line != '\n';
         line = strchr(line, '\n') + 1)
        assert_true(strchr(line, '\n') - line <= 70);
    assert_non_null(strstr(text, " a::name<..>::in "));
    free(text);
    fixture_end();
}

static void test_names_without_symbols(void **state)
{
    (void)state;
    const struct text_style style = {.unicode = true};
    static const struct {
        unsigned width;
        const char *name, *shown;
    } cases[] = {
        {16, "libpoppler.so.126+0x176e30", "libpop…+0x176e30"},
        {0, "libpoppler.so.126+0x176e30", "libpoppler.so.126+0x176e30"},
        {6, "libpoppler.so.126+0x176e30", "…76e30"},
        {12, "sum+0x10(unsigned char)", "sum…ed char)"},
        {12, "__memcpy_evex_unaligned_erms", "__m…ned_erms"},
        {20, "bool std::operator==<char>(std::string const&, char const*)", "std::operator==<…>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *shown = name_in_columns(cases[i].name, cases[i].width, &style);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}

// Ten callers in a row: the nearest ones are shown, and the place of the function itself.
static void test_long_chain_of_callers(void **state)
{
    (void)state;
    fixture_start();
    uint32_t at = fixture_tree(0, 1);
    place_t function = 0, site = 0;
    static const char names[][3] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"};
    for (unsigned i = 0; i < 10; i++) {
        function = fixture_function(PROGRAM, 0x1000 * (i + 1), names[i], 10 * i + 10);
        at = fixture_frame(at, site, function, 0);
        site = function + 1;
    }
    fixture_statement(at, function + 1, 1);
    struct report_options options = fixture_options();
    options.view = VIEW_CALLERS;
    options.least = 100;
    options.sort_given = true;
    options.sort = ORDER_SELF;
    expect_table(
        options, plain,
        "  total           self  function                                          where\n"
        "100.0 %  1 ns  100.0 %  f9 < f8 < f7 < f6 < f5 < f4 < f3 < f2 < (2 more)  f9.c:100\n");
    fixture_end();
}

// The table of a report on a terminal of that width.
static void expect_columns(struct report_options options, unsigned width, const char *expected)
{
    expect_table(options, (struct text_style){.width = width, .unicode = true}, expected);
}

// _start and what it calls, up to a function of the program; returns the frame of the last.
static uint32_t add_startup(const char *const *names, unsigned count, unsigned module)
{
    uint32_t at = fixture_tree(0, 1);
    place_t site = 0;
    for (unsigned i = 0; i < count; i++) {
        place_t function =
            fixture_function(i + 1 < count ? LIBRARY : module, 0x8000 + 0x100 * i, names[i], 1);
        at = fixture_frame(at, site, function, 0);
        site = function + 1;
    }
    return at;
}

static void test_startup_code_gives_way(void **state)
{
    (void)state;
    fixture_start();
    static const char *const startup[] = {"_start", "__libc_start_main", "main"};
    uint32_t main = add_startup(startup, 3, PROGRAM);
    place_t site = fixture_function(PROGRAM, 0x9000, "run", 7);
    fixture_statement(main, site - 0x1000 + 1, 40);
    uint32_t run = fixture_frame(main, 0x8201, site, 0);
    fixture_statement(run, site + 1, 60);
    expect_columns(fixture_options(), 80,
                   "  total            self  function  where\n"
                   "100.0 %  100 ns  40.0 %  main      main.c:1\n"
                   " 60.0 %   60 ns  60.0 %  └─ run    run.c:7\n");
    // Where there is no width, all is shown; and start-up code never counts as depth.
    struct report_options options = fixture_options();
    options.depth = 1;
    expect_table(options, drawn,
                 "  total            self  function                           where\n"
                 "100.0 %  100 ns  40.0 %  _start › __libc_start_main › main  main.c:1\n");
    options.view = VIEW_CALLERS;
    options.depth = 0;
    options.focus = fixture_pattern("^run$");
    expect_columns(options, 80,
                   " total           self  function    where\n"
                   "60.0 %  60 ns  60.0 %  run ‹ main  run.c:7\n");
    fixture_end();
}

// A row is about a function of a library: the program's own ones that lead there stay.
static void test_own_functions_stay(void **state)
{
    (void)state;
    fixture_start();
    static const char *const names[] = {
        "parse_configuration_file", "library_read_everything_there_is",
        "library_read_by_blocks_of_bytes", "library_fill_the_buffer"};
    uint32_t at = fixture_tree(0, 1);
    place_t site = 0;
    for (unsigned i = 0; i < 4; i++) {
        place_t function =
            fixture_function(i == 0 ? PROGRAM : LIBRARY, 0x8000 + 0x100 * i, names[i], 1);
        at = fixture_frame(at, site, function, 0);
        site = function + 1;
    }
    fixture_statement(at, site, 1);
    char *text =
        fixture_styled_report(fixture_options(), (struct text_style){.width = 80, .unicode = true});
    assert_non_null(strstr(text, "parse_configuration_file › … › "));
    assert_non_null(strstr(text, "buffer  "));
    free(text);
    fixture_end();
}

// Functions whose names differ in the middle only are told apart in every width.
static void test_no_two_look_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {
        "shop::checksum<std::vector<std::string, std::allocator<std::string> >, long>",
        "shop::checksum<std::vector<long, std::allocator<long> >, long>",
        "shop::checksum<std::vector<char, std::allocator<char> >, long>",
        "main",
        "toplevel::main",
        "shop::print(int)",
        "shop::print(double)",
        "print",
        "a_very_long_name_of_a_function_that_differs_here_1_and_goes_on_for_a_long_while",
        "a_very_long_name_of_a_function_that_differs_here_2_and_goes_on_for_a_long_while",
        "a_very_long_name_of_a_function_that_differs_here_3_and_goes_on_for_a_long_while",
    };
    enum { NAMES = sizeof names / sizeof *names };
    for (unsigned width = 40; width <= 200; width += 20) {
        fixture_start();
        uint32_t root = fixture_tree(0, 1);
        for (unsigned i = 0; i < NAMES; i++) {
            place_t function = fixture_function(PROGRAM, 0x1000 * (i + 1), names[i], 1);
            fixture_statement(fixture_frame(root, 0, function, 0), function + 1, 10);
        }
        // The same name in another module.
        place_t other = fixture_function(LIBRARY, 0x9000, "main", 1);
        fixture_statement(fixture_frame(root, 0, other, 0), other + 1, 10);
        struct report_options options = fixture_options();
        options.view = VIEW_FLAT;
        char *text = fixture_styled_report(options, (struct text_style){.width = width});
        char *rows[NAMES + 1];
        unsigned count = 0;
        char *line = strchr(strstr(text, "\n\n") + 2, '\n') + 1;
        for (; *line != '\n'; line = strchr(line, '\n') + 1)
            rows[count++] = strchr(strchr(line, '%') + 1, '%') + 3;
        assert_int_equal(count, NAMES + 1);
        for (unsigned i = 0; i < count; i++) // ends at the column where the files stand
            rows[i][strcspn(rows[i], "\n")] = '\0';
        for (unsigned i = 0; i < count; i++) {
            char *gap = strstr(rows[i], "  ");
            if (gap)
                *gap = '\0';
            for (unsigned j = 0; j < i; j++)
                assert_string_not_equal(rows[i], rows[j]);
        }
        free(text);
        fixture_end();
    }
}

// A function that calls itself on every row, to depth 12, and something else each time.
static void add_recursion(void)
{
    place_t walk = fixture_function(PROGRAM, 0x1000, "walk", 1);
    place_t visit = fixture_function(PROGRAM, 0x2000, "visit", 2);
    uint32_t at = fixture_frame(fixture_tree(0, 1), 0, walk, 0);
    for (unsigned i = 0; i < 12; i++) {
        fixture_statement(fixture_frame(at, walk + 5, visit, 0), visit + 1, 10);
        if (i < 11)
            at = fixture_frame(at, walk + 9, walk, 0);
    }
}

static void test_recursion_that_fills_rows_is_folded(void **state)
{
    (void)state;
    fixture_start();
    add_recursion();
    char *text = fixture_styled_report(fixture_options(), drawn);
    assert_non_null(strstr(text, "walk (recursive, to depth 12) › visit"));
    assert_non_null(strstr(text, "Recursion is folded"));
    free(text);
    struct report_options options = fixture_options();
    options.fold_recursion = FOLD_NO;
    text = fixture_styled_report(options, drawn);
    assert_null(strstr(text, "recursive"));
    assert_null(strstr(text, "Recursion"));
    free(text);
    // What was asked for is not changed, and neither is what programs read.
    options = fixture_options();
    options.least = 0;
    text = fixture_styled_report(options, drawn);
    assert_null(strstr(text, "recursive"));
    free(text);
    options = fixture_options();
    options.json = true;
    text = fixture_report(options);
    unsigned walks = 0;
    for (char *found = text; (found = strstr(found, "\"walk\"")); found++)
        walks++;
    assert_int_equal(walks, 12);
    free(text);
    fixture_end();
}

// Sixty functions of about the same cost: more than fits two screens.
static void test_a_report_fits_two_screens(void **state)
{
    (void)state;
    fixture_start();
    uint32_t root = fixture_tree(0, 1);
    static char names[60][8];
    for (unsigned i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        place_t function = fixture_function(PROGRAM, 0x1000 * (i + 1), names[i], 1);
        fixture_statement(fixture_frame(root, 0, function, 0), function + 1, i < 30 ? 20 : 10);
    }
    static const enum report_view views[] = {VIEW_TREE, VIEW_CALLERS, VIEW_FLAT};
    for (unsigned i = 0; i < 3; i++) {
        struct report_options options = fixture_options();
        options.view = views[i];
        char *text = fixture_report(options);
        assert_null(strstr(text, "f30"));
        assert_non_null(strstr(
            text, views[i] == VIEW_FLAT   ? "30 rows below 1.2 %, 33.3 % in all, are left out"
                  : views[i] == VIEW_TREE ? "30 paths below 1.2 %, 33.3 % in all, have no row"
                                          : "30 paths below 1.2 % have no row"));
        free(text);
        options.least = 0.5; // as it would be
        text = fixture_report(options);
        assert_non_null(strstr(text, "f59"));
        free(text);
    }
    fixture_end();
}

// What costs little in all may be all of what is in focus.
static void test_min_is_a_share_of_what_is_in_focus(void **state)
{
    (void)state;
    fixture_start();
    uint32_t root = fixture_tree(0, 1);
    place_t heavy = fixture_function(PROGRAM, 0x1000, "heavy", 1);
    place_t caller = fixture_function(PROGRAM, 0x2000, "caller", 2);
    place_t light = fixture_function(PROGRAM, 0x3000, "light", 3);
    fixture_statement(fixture_frame(root, 0, heavy, 0), heavy + 1, 100000);
    uint32_t at = fixture_frame(root, 0, caller, 0);
    fixture_statement(fixture_frame(at, caller + 5, light, 0), light + 1, 10);
    struct report_options options = fixture_options();
    options.view = VIEW_CALLERS;
    options.focus = fixture_pattern("^light$");
    fixture_statement(root, 0, 500); // of no path: it has a row where nothing is in focus
    char *text = fixture_report(options);
    assert_null(strstr(text, "<no call path>"));
    assert_non_null(strstr(text, "light < caller"));
    free(text);
    options.view = VIEW_TREE;
    options.focus = fixture_pattern("^caller$");
    text = fixture_report(options);
    assert_non_null(strstr(text, "caller > light"));
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

static void test_refusals(void **state)
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
    free(text);
    fixture_end();
}

static void test_command(void **state)
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

static void test_folded(void **state)
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
    assert_int_equal(export_folded.write(out, &(struct export_input){analysis, tree, 0}), 0);
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

static void test_info(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct live_stats *stats = &analysis->profile->trees[0].stats;
    stats->verdicts[VERDICT_COMPLETE] = 2;
    stats->verdicts[VERDICT_MARKER] = 3;
    stats->verdicts[VERDICT_NO_CFI] = 1;
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
              "assert (w[\"complete\"], w[\"marker\"], w[\"truncated\"]) == (2, 3, 1)\n"
              "assert abs(w[\"complete_pct\"] - 83.33333) < 0.001\n"
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
    assert_non_null(strstr(text, "83.33 % complete: 2 walked to the root, 3 to the marker, 1 cut"));
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
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_hidden_is_said),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_names_without_symbols),
        cmocka_unit_test(test_long_chain_of_callers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_startup_code_gives_way),
        cmocka_unit_test(test_own_functions_stay),
        cmocka_unit_test(test_no_two_look_the_same),
        cmocka_unit_test(test_recursion_that_fills_rows_is_folded),
        cmocka_unit_test(test_a_report_fits_two_screens),
        cmocka_unit_test(test_min_is_a_share_of_what_is_in_focus),
        cmocka_unit_test(test_callers_and_flat),
        cmocka_unit_test(test_tree_json),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_head_counts_what_was_chosen),
        cmocka_unit_test(test_list_of_threads),
        cmocka_unit_test(test_notes_on_symbols_are_for_functions),
        cmocka_unit_test(test_live_memory_is_not_all_allocations),
        cmocka_unit_test(test_incomplete_paths_are_said),
        cmocka_unit_test(test_nothing_sampled),
        cmocka_unit_test(test_flat_json),
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_few_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
