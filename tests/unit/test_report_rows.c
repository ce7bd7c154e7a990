// SPDX-License-Identifier: MIT

// The rows of a report: names that fit, chains that are folded, rows that give way.

#include "analyze/report/name_set.h"
#include "report_fixture.h"

static void test_chains_without_branches_take_one_row(void **state)
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

static void test_no_line_is_wider_than_asked_for(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_without_branches_take_one_row),
        cmocka_unit_test(test_no_line_is_wider_than_asked_for),
        cmocka_unit_test(test_names_without_symbols),
        cmocka_unit_test(test_long_chain_of_callers),
        cmocka_unit_test(test_startup_code_gives_way),
        cmocka_unit_test(test_own_functions_stay),
        cmocka_unit_test(test_no_two_look_the_same),
        cmocka_unit_test(test_recursion_that_fills_rows_is_folded),
        cmocka_unit_test(test_a_report_fits_two_screens),
        cmocka_unit_test(test_min_is_a_share_of_what_is_in_focus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
