// SPDX-License-Identifier: MIT
// Files, lines and inlined functions out of DWARF of several versions, compilers and languages.
#include "symbol_fixture.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct expected_frame {
    const char *function;
    const char *source;
    const char *mark; // "at NAME" in the source
};

static void assert_frames(const struct symbol *symbol, const struct expected_frame *expected,
                          unsigned count)
{
    assert_int_equal(symbol->count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_string_equal(symbol->frames[i].function, expected[i].function);
        assert_non_null(symbol->frames[i].file);
        assert_string_equal(strrchr(symbol->frames[i].file, '/') + 1, expected[i].source);
        assert_int_equal(symbol->frames[i].line,
                         fixture_line(expected[i].source, expected[i].mark));
    }
}

static const struct expected_frame inlined[] = {
    {"innermost", "inlines.c", "innermost"},
    {"middle", "inlines.c", "middle"},
    {"outer", "inlines.c", "outer"},
};
static const struct expected_frame plain[] = {{"plain", "inlines.c", "plain"}};

static void assert_inlines(const char *path, const char *file)
{
    struct fixture fixture;
    fixture_open(&fixture, path, WITH_LINES);
    uint64_t mark = fixture_offset(file, "mark_innermost");
    symbols_want(fixture.symbols, 0, place_make(FIXTURE_MODULE, mark));
    symbols_want(fixture.symbols, 0,
                 place_make(FIXTURE_MODULE, fixture_offset(file, "mark_plain")));
    symbols_resolve(fixture.symbols);
    const struct symbol *symbol = fixture_at(&fixture, mark);
    assert_frames(symbol, inlined, 3);
    assert_true(symbol->function == place_make(FIXTURE_MODULE, fixture_offset(file, "outer")));
    assert_frames(fixture_at(&fixture, fixture_offset(file, "mark_plain")), plain, 1);
    assert_int_equal(symbols_quality(fixture.symbols, FIXTURE_MODULE), SYMBOLS_DWARF);
    assert_int_equal(fixture_notes(&fixture), 0);
    fixture_close(&fixture);
}

static void inlined_functions_are_unfolded(void **state)
{
    (void)state;
    static const char *const flags[] = {"-g",
                                        "-gdwarf-4",
                                        "-gdwarf-3",
                                        "-gdwarf-5 -no-pie",
                                        "-g -gz=zlib",
                                        "-g -gsplit-dwarf",
                                        "-gdwarf-4 -gsplit-dwarf",
                                        "-g -flto",
                                        "-g -ffunction-sections",
                                        "-g -fdebug-types-section",
                                        "-g -Wl,-Ttext-segment=0x10000000"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        fixture_run("gcc -O2 %s $SOURCES/inlines.c $SOURCES/main.c -o inlines", flags[i]);
        assert_inlines(fixture_path("inlines"), "inlines");
    }
}

static void clang_needs_no_table_of_ranges(void **state)
{
    (void)state;
    if (!fixture_has("clang")) {
        print_message("skipped: no clang\n");
        skip();
    }
    static const char *const flags[] = {"-g", "-gdwarf-4", "-g -gsplit-dwarf"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        fixture_run("clang -O2 %s $SOURCES/inlines.c $SOURCES/main.c -o clanged", flags[i]);
        assert_inlines(fixture_path("clanged"), "clanged");
    }
}

static void cold_parts_have_lines_of_their_function(void **state)
{
    (void)state;
    fixture_run("gcc -O2 -g $SOURCES/inlines.c $SOURCES/main.c -o cold");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("cold"), WITH_LINES);
    const struct symbol *symbol = fixture_at(&fixture, fixture_offset("cold", "splits.cold"));
    assert_string_equal(symbol->frames[symbol->count - 1].function, "splits");
    assert_non_null(symbol->frames[symbol->count - 1].file);
    assert_true(symbol->function == place_make(FIXTURE_MODULE, fixture_offset("cold", "splits")));
    fixture_close(&fixture);
}

static void lines_come_out_of_separate_files(void **state)
{
    (void)state;
    fixture_run("gcc -O2 -g $SOURCES/inlines.c $SOURCES/main.c -o joined");
    fixture_run("objcopy --only-keep-debug joined split.debug && strip -o split joined && "
                "objcopy --add-gnu-debuglink=split.debug split");
    assert_inlines(fixture_path("split"), "joined");
}

static void compressed_debug_information_is_read(void **state)
{
    (void)state;
    static const char *const forms[] = {"zlib-gabi", "zlib-gnu", "zstd"};
    fixture_run("gcc -O2 -g $SOURCES/inlines.c $SOURCES/main.c -o plain");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        fixture_run("objcopy --compress-debug-sections=%s plain packed", forms[i]);
        assert_inlines(fixture_path("packed"), "plain");
    }
    // The rest of a program is found beside it, wherever it was compiled.
    fixture_run(
        "mkdir -p beside && cd beside && gcc -O2 -g -gsplit-dwarf -fdebug-prefix-map=$PWD=. "
        "-gz=zlib $SOURCES/inlines.c $SOURCES/main.c -o parted && "
        "objcopy --compress-debug-sections=zlib parted");
    assert_inlines(fixture_path("beside/parted"), "beside/parted");
}

static void shared_debug_information_is_followed(void **state)
{
    (void)state;
    if (!fixture_has("dwz")) {
        print_message("skipped: no dwz\n");
        skip();
    }
    // Two programs of the same sources: what they share moves to a third file.
    fixture_run("gcc -O2 -g -gdwarf-4 $SOURCES/inlines.c $SOURCES/main.c -o first");
    fixture_run("gcc -O2 -g -gdwarf-4 -no-pie $SOURCES/inlines.c $SOURCES/main.c -o second");
    fixture_run("dwz -m shared.dwz -M %s first second", fixture_path("shared.dwz"));
    fixture_run("readelf -S first | grep -q gnu_debugaltlink");
    assert_inlines(fixture_path("first"), "first");
    assert_inlines(fixture_path("second"), "second");
}

static void nothing_is_unfolded_unless_asked_for(void **state)
{
    (void)state;
    fixture_run("gcc -O2 -g $SOURCES/inlines.c $SOURCES/main.c -o unasked");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("unasked"), WITHOUT_LINES);
    const struct symbol *symbol = fixture_at(&fixture, fixture_offset("unasked", "mark_innermost"));
    assert_int_equal(symbol->count, 1);
    assert_string_equal(symbol->frames[0].function, "outer");
    assert_null(symbol->frames[0].file);
    assert_int_equal(symbols_quality(fixture.symbols, FIXTURE_MODULE), SYMBOLS_DWARF);
    fixture_close(&fixture);
}

static void cplusplus_names_are_qualified(void **state)
{
    (void)state;
    if (!fixture_has("g++")) {
        print_message("skipped: no g++\n");
        skip();
    }
    static const struct expected_frame expected[] = {
        {"shapes::(anonymous namespace)::Hidden::twice", "shapes.cc", "twice"},
        {"shapes::Box<long>::area", "shapes.cc", "area"},
    };
    static const char *const compilers[] = {"g++", "clang++"};
    for (int i = 0; i < 2; i++) {
        if (!fixture_has(compilers[i]))
            continue;
        fixture_run("%s -O2 -g $SOURCES/shapes.cc -o shapes", compilers[i]);
        struct fixture fixture;
        fixture_open(&fixture, fixture_path("shapes"), WITH_LINES);
        assert_frames(fixture_at(&fixture, fixture_offset("shapes", "mark_twice")), expected, 2);
        fixture_close(&fixture);
    }
}

// A lambda has no linkage name of its own when it is inlined.
static void functions_within_functions_are_qualified(void **state)
{
    (void)state;
    if (!fixture_has("g++")) {
        print_message("skipped: no g++\n");
        skip();
    }
    static const struct expected_frame expected[] = {
        {"geometry::measure::{lambda}::operator()", "lambda.cc", "lambda"},
        {"geometry::measure", "lambda.cc", "measure"},
    };
    fixture_run("g++ -O2 -g $SOURCES/lambda.cc -o lambda");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("lambda"), WITH_LINES);
    assert_frames(fixture_at(&fixture, fixture_offset("lambda", "mark_lambda")), expected, 2);
    fixture_close(&fixture);
}

static void rust_names_are_readable(void **state)
{
    (void)state;
    if (!fixture_has("rustc")) {
        print_message("skipped: no rustc\n");
        skip();
    }
    static const struct expected_frame expected[] = {
        {"rusty::inner::absorbed", "rusty.rs", "absorbed"},
        {"rusty::inner::kept", "rusty.rs", "kept"},
    };
    static const char *const flags[] = {"", "-C symbol-mangling-version=v0"};
    for (int i = 0; i < 2; i++) {
        fixture_run("rustc -O -g %s $SOURCES/rusty.rs -o rusty", flags[i]);
        struct fixture fixture;
        fixture_open(&fixture, fixture_path("rusty"), WITH_LINES);
        assert_frames(fixture_at(&fixture, fixture_offset("rusty", "mark_absorbed")), expected, 2);
        fixture_close(&fixture);
    }
}

static void missing_lines_are_said_once_with_what_helps(void **state)
{
    (void)state;
    fixture_run("gcc -O2 $SOURCES/inlines.c $SOURCES/main.c -o bare");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("bare"), WITH_LINES);
    fixture_at(&fixture, fixture_offset("bare", "outer"));
    fixture_at(&fixture, fixture_offset("bare", "plain"));
    assert_int_equal(fixture_notes(&fixture), 1);
    assert_true(fixture_has_note(&fixture, "no line numbers for bare: compile it with -g"));
    fixture_close(&fixture);
    // Nobody asked for lines: nothing to say.
    fixture_open(&fixture, fixture_path("bare"), WITHOUT_LINES);
    fixture_at(&fixture, fixture_offset("bare", "outer"));
    assert_int_equal(fixture_notes(&fixture), 0);
    fixture_close(&fixture);
}

static void missing_lines_of_a_cold_module_are_not_mentioned(void **state)
{
    (void)state;
    fixture_run("gcc -O2 $SOURCES/inlines.c $SOURCES/main.c -o chilly");
    uint64_t outer = fixture_offset("chilly", "outer");
    const place_t warm = place_make(FIXTURE_MODULE, outer), hottest = place_make(MODULE_VDSO, 16);
    // Statements; those of trees that forget, which have no address; calls, which lie in frames.
    struct profile_node statements[] = {
        {.parent = PROFILE_NO_PARENT}, {.parent = 0, .site = warm}, {.parent = 0, .site = hottest}};
    struct profile_node nowhere[] = {{.parent = PROFILE_NO_PARENT, .function = warm},
                                     {.parent = 0},
                                     {.parent = 0, .site = hottest}};
    struct profile_node calls[] = {{.parent = PROFILE_NO_PARENT, .function = 0},
                                   {.parent = 0, .function = warm},
                                   {.parent = 0, .function = hottest}};
    uint64_t values[] = {0, 10, 990};
    struct profile_tree trees[] = {{.count = 3, .nodes = statements, .values = values},
                                   {.count = 3, .nodes = nowhere, .values = values},
                                   {.count = 3, .nodes = calls, .values = values}};
    struct profile_metric metrics[] = {{.name = "cpu", .unit = "ns"},
                                       {.name = "cpu", .unit = "ns"},
                                       {.name = "calls", .unit = "calls"}};
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("chilly"), WITH_LINES);
    fixture_close(&fixture);
    fixture.profile.metric_count = 1;
    fixture.profile.tree_count = 1;
    for (unsigned i = 0; i < 6; i++) {
        const bool hot = i % 2;
        fixture.profile.trees = &trees[i / 2];
        fixture.profile.metrics = &metrics[i / 2];
        values[1] = hot ? 30 : 10;
        fixture.symbols = symbols_new(&fixture.profile, &(struct symbols_options){.inlines = true});
        assert_string_equal(fixture_name(&fixture, outer), "outer");
        assert_int_equal(fixture_notes(&fixture), hot);
        fixture_close(&fixture);
    }
}

// libdebuginfod asks for /buildid/HEX/debuginfo: any web server with such a file will do.
static void debug_files_come_from_servers(void **state)
{
    (void)state;
    void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY);
    if (!library || !fixture_has("python3")) {
        print_message("skipped: no libdebuginfod or no python3\n");
        skip();
    }
    fixture_run("gcc -O2 -g -Wl,--build-id=0x1122334455667788 $SOURCES/inlines.c $SOURCES/main.c "
                "-o remote");
    fixture_run("mkdir -p web/buildid/1122334455667788 && objcopy --only-keep-debug remote "
                "web/buildid/1122334455667788/debuginfo && strip -o far remote");
    fixture_run("cd web && { python3 -u -m http.server --bind 127.0.0.1 0 > ../server.log 2>&1 & } "
                "&& echo $! > ../server.pid");
    fixture_run("for i in $(seq 100); do grep -q port server.log && break; sleep 0.1; done");
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%s",
             fixture_output("sed -n 's/.* port \\([0-9]*\\).*/\\1/p' server.log"));
    setenv("DEBUGINFOD_URLS", url, 1);
    setenv("DEBUGINFOD_CACHE_PATH", fixture_path("cache"), 1);
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("far"), WITH_LINES);
    fixture_close(&fixture);
    struct symbols_options options = {.inlines = true, .debuginfod = true};
    fixture.symbols = symbols_new(&fixture.profile, &options);
    const struct symbol *symbol = fixture_at(&fixture, fixture_offset("remote", "mark_innermost"));
    unsigned count = symbol->count;
    if (count == 3)
        assert_frames(symbol, inlined, 3);
    fixture_close(&fixture);
    unsetenv("DEBUGINFOD_URLS");
    fixture_run("kill $(cat server.pid)");
    assert_int_equal(count, 3);
}

static void damaged_lines_are_noted_and_names_stay(void **state)
{
    (void)state;
    fixture_run("gcc -O2 -g $SOURCES/inlines.c $SOURCES/main.c -o damaged");
    fixture_run("head -c 3000 /dev/zero | tr '\\0' '\\377' > noise");
    fixture_run("objcopy --update-section .debug_abbrev=noise damaged 2>/dev/null");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("damaged"), WITH_LINES);
    for (int i = 0; i < 8; i++)
        assert_string_equal(fixture_name(&fixture, fixture_offset("damaged", "outer") + i),
                            "outer");
    assert_int_equal(fixture_notes(&fixture), 1);
    assert_true(fixture_has_note(&fixture, "its debug information is damaged"));
    fixture_close(&fixture);
}

static void missing_split_files_are_said_and_lines_stay(void **state)
{
    (void)state;
    fixture_run(
        "gcc -O2 -g -gsplit-dwarf $SOURCES/inlines.c $SOURCES/main.c -o parted && rm -f *.dwo");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("parted"), WITH_LINES);
    const struct symbol *symbol = fixture_at(&fixture, fixture_offset("parted", "mark_innermost"));
    assert_int_equal(symbol->count, 1);
    assert_string_equal(symbol->frames[0].function, "outer");
    assert_int_equal(symbol->frames[0].line, fixture_line("inlines.c", "innermost"));
    assert_true(fixture_has_note(&fixture, "inlines.dwo is missing"));
    fixture_close(&fixture);
}

static void missing_names_are_said_too(void **state)
{
    (void)state;
    fixture_run("gcc -O2 $SOURCES/inlines.c $SOURCES/main.c -o named && strip named -o stripped");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("stripped"), WITH_LINES);
    fixture_at(&fixture, fixture_offset("named", "outer"));
    assert_int_equal(fixture_notes(&fixture), 1);
    assert_true(fixture_has_note(&fixture, "no line numbers, nor names for most functions, in "
                                           "stripped: compile it with -g, and do not strip it"));
    fixture_close(&fixture);
}

static void packages_are_named_for_system_files(void **state)
{
    (void)state;
    if (access("/var/lib/dpkg/info", R_OK) != 0 || access("/usr/bin/dpkg", R_OK) != 0) {
        print_message("skipped: not Debian\n");
        skip();
    }
    struct fixture fixture;
    fixture_open(&fixture, "/usr/bin/dpkg", WITH_LINES);
    fixture_at(&fixture, 0x5000);
    if (symbols_quality(fixture.symbols, FIXTURE_MODULE) != SYMBOLS_DWARF)
        assert_true(fixture_has_note(&fixture, "no line numbers, nor names for most functions, in "
                                               "dpkg: install dpkg-dbgsym"));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inlined_functions_are_unfolded),
        cmocka_unit_test(clang_needs_no_table_of_ranges),
        cmocka_unit_test(cold_parts_have_lines_of_their_function),
        cmocka_unit_test(lines_come_out_of_separate_files),
        cmocka_unit_test(compressed_debug_information_is_read),
        cmocka_unit_test(shared_debug_information_is_followed),
        cmocka_unit_test(nothing_is_unfolded_unless_asked_for),
        cmocka_unit_test(cplusplus_names_are_qualified),
        cmocka_unit_test(functions_within_functions_are_qualified),
        cmocka_unit_test(rust_names_are_readable),
        cmocka_unit_test(missing_lines_are_said_once_with_what_helps),
        cmocka_unit_test(missing_lines_of_a_cold_module_are_not_mentioned),
        cmocka_unit_test(debug_files_come_from_servers),
        cmocka_unit_test(damaged_lines_are_noted_and_names_stay),
        cmocka_unit_test(missing_split_files_are_said_and_lines_stay),
        cmocka_unit_test(missing_names_are_said_too),
        cmocka_unit_test(packages_are_named_for_system_files),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
