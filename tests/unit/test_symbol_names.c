// SPDX-License-Identifier: MIT
// The parts of src/symbol that need no ELF file: readable names, nested ranges, maps of JIT code.
#include "base/spans.h"
#include "symbol/names/names.h"
#include "symbol/perf_map.h"
#include "symbol_fixture.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_display(const char *raw, const char *expected)
{
    struct text_pool pool = {0};
    assert_string_equal(names_display(&pool, raw, NAMES_CLONES), expected);
    pool_free(&pool);
}

static void suffixes_of_clones_are_dropped(void **state)
{
    (void)state;
    assert_display("foo", "foo");
    assert_display("foo.cold", "foo");
    assert_display("foo.cold.1", "foo");
    assert_display("foo.part.0", "foo");
    assert_display("foo.isra.0.cold", "foo");
    assert_display("foo.constprop.12.isra.3", "foo");
    assert_display("foo.lto_priv.0", "foo");
    assert_display("foo.llvm.1234567890123", "foo");
    assert_display("_ZN1a1bEv.part.0.cold", "a::b");
    // Not every dot begins a suffix.
    assert_display("foo.bar", "foo.bar");
    assert_display("foo.1234", "foo.1234");
    assert_display(".cold", ".cold");
    assert_display("memcpy@GLIBC_2.2.5", "memcpy");
    assert_display("memcpy@@GLIBC_2.14", "memcpy");
}

static void parents_of_cold_parts_keep_their_other_suffixes(void **state)
{
    (void)state;
    bool cold;
    size_t parent;
    assert_int_equal(names_base_length("foo.isra.0.cold", &cold, &parent), 3);
    assert_true(cold);
    assert_int_equal(parent, strlen("foo.isra.0"));
    assert_int_equal(names_base_length("foo.part.0", &cold, &parent), 3);
    assert_false(cold);
}

static void mangled_names_become_readable(void **state)
{
    (void)state;
    assert_display("_ZNSt6vectorIiSaIiEE9push_backEOi",
                   "std::vector<int, std::allocator<int> >::push_back");
    assert_display("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place");
    assert_display("_RNvC6_123foo3bar", "123foo::bar");
    assert_display("_D3std5stdio7writelnFZv", "std.stdio.writeln()");
    assert_display(
        "_ZNSt3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiSt4lessIS5_ESaISt4"
        "pairIKS5_iEEEixEOS5_",
        "std::map<std::string, int, std::less<std::string>, "
        "std::allocator<std::pair<std::string const, int> > >::operator[]");
    assert_display("_Zbroken", "_Zbroken");
    assert_display("_", "_");
    assert_display("evil\033[2Jname\n", "evil\033[2Jname\n");
}

static void dots_of_go_names_stay(void **state)
{
    (void)state;
    struct text_pool pool = {0};
    assert_string_equal(names_display(&pool, "main.cold", NAMES_DOTTED), "main.cold");
    pool_free(&pool);
}

static void pooled_strings_are_kept_once(void **state)
{
    (void)state;
    struct text_pool pool = {0};
    const char *first = pool_string(&pool, "one");
    char text[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "string %d", i);
        pool_string(&pool, text);
    }
    assert_ptr_equal(first, pool_string(&pool, "one"));
    assert_ptr_equal(first, pool_substring(&pool, "one more", 3));
    assert_int_equal(pool.string_count, 5001);
    pool_free(&pool);
}

static void nested_ranges_are_found_innermost_first(void **state)
{
    (void)state;
    struct spans spans = {0};
    spans_add(&spans, 0x100, 0x900, 1);
    spans_add(&spans, 0x200, 0x300, 2);
    spans_add(&spans, 0x250, 0x260, 3);
    spans_add(&spans, 0x400, 0x400, 4); // empty: ignored
    spans_sort(&spans);
    size_t index = spans_find(&spans, 0x255);
    assert_int_equal(spans.list[index].item, 3);
    index = spans_outer(&spans, index, 0x255);
    assert_int_equal(spans.list[index].item, 2);
    index = spans_outer(&spans, index, 0x255);
    assert_int_equal(spans.list[index].item, 1);
    assert_int_equal(spans_outer(&spans, index, 0x255), SPANS_NONE);
    assert_int_equal(spans.list[spans_find(&spans, 0x8ff)].item, 1);
    assert_int_equal(spans_find(&spans, 0x900), SPANS_NONE);
    assert_int_equal(spans_find(&spans, 0xff), SPANS_NONE);
    spans_free(&spans);
}

static void write_map(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void jit_code_is_named_by_the_map_of_its_process(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    write_map(path, "1000 100 LazyCompile:~first /a b/c.js:1:2\n"
                    "1100 80 second\n"
                    "1080 20 replacement\r\n"
                    "garbage\n"
                    "20zz 10 bad\n"
                    "ffffffffffffffff 10 over the end\n"
                    "3000 10\n");
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    const struct {
        uint64_t address;
        const char *name;
        uint64_t start;
    } expected[] = {
        {0x1000, "LazyCompile:~first /a b/c.js:1:2", 0x1000},
        {0x107f, "LazyCompile:~first /a b/c.js:1:2", 0x1000},
        {0x1080, "replacement", 0x1080}, // written later, over the first
        {0x10a0, "LazyCompile:~first /a b/c.js:1:2", 0x1000},
        {0x117f, "second", 0x1100},
        {0x1180, "[jit]", 0},
        {0x3000, "[jit]", 0},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        place_t place = place_make(MODULE_ANONYMOUS, expected[i].address);
        const struct symbol *symbol = symbols_at(fixture.symbols, 0, place);
        assert_int_equal(symbol->count, 1);
        assert_string_equal(symbol->frames[0].function, expected[i].name);
        place_t start = expected[i].start ? place_make(MODULE_ANONYMOUS, expected[i].start) : 0;
        assert_true(symbol->function == start);
    }
    fixture_close(&fixture);
    unlink(path);
}

static void a_map_left_by_an_older_process_is_not_believed(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    write_map(path, "1000 100 stale\n");
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    fixture.profile.start_realtime_ns = UINT64_C(2000) * 1000000000;
    const struct symbol *symbol =
        symbols_at(fixture.symbols, 0, place_make(MODULE_ANONYMOUS, 0x1000));
    assert_string_equal(symbol->frames[0].function, "[jit]");
    fixture_close(&fixture);
    unlink(path);
}

static void a_map_of_another_user_is_not_believed(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    write_map(path, "1000 100 planted\n");
    assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
    for (unsigned own = 0; own < 2; own++) {
        struct fixture fixture;
        fixture_open(&fixture, "/nowhere", WITH_LINES);
        fixture.profile.owner = own ? 65534 : 0;
        const struct symbol *symbol =
            symbols_at(fixture.symbols, 0, place_make(MODULE_ANONYMOUS, 0x1000));
        assert_string_equal(symbol->frames[0].function, own ? "planted" : "[jit]");
        const char *note = symbols_note(fixture.symbols, 0);
        assert_true(own ? !note : note && strstr(note, "belongs to another user"));
        fixture_close(&fixture);
    }
    unlink(path);
}

static void a_huge_map_is_not_read(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    write_map(path, "1000 100 first\n");
    assert_int_equal(truncate(path, INT64_C(1) << 40), 0); // a line of a terabyte
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    const struct symbol *symbol =
        symbols_at(fixture.symbols, 0, place_make(MODULE_ANONYMOUS, 0x1000));
    assert_string_equal(symbol->frames[0].function, "[jit]");
    assert_non_null(strstr(symbols_note(fixture.symbols, 0), "too large"));
    fixture_close(&fixture);
    unlink(path);
}

static void a_fork_uses_the_map_of_its_parent(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    write_map(path, "1000 100 inherited\n");
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    fixture.process = (struct profile_process){
        .pid = UINT32_MAX, .parent_pid = (uint32_t)getpid(), .forked = true};
    const struct symbol *symbol =
        symbols_at(fixture.symbols, 0, place_make(MODULE_ANONYMOUS, 0x1000));
    assert_string_equal(symbol->frames[0].function, "inherited");
    // A process that the profile does not have.
    symbol = symbols_at(fixture.symbols, 7, place_make(MODULE_ANONYMOUS, 0x1000));
    assert_string_equal(symbol->frames[0].function, "[jit]");
    fixture_close(&fixture);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suffixes_of_clones_are_dropped),
        cmocka_unit_test(parents_of_cold_parts_keep_their_other_suffixes),
        cmocka_unit_test(mangled_names_become_readable),
        cmocka_unit_test(dots_of_go_names_stay),
        cmocka_unit_test(pooled_strings_are_kept_once),
        cmocka_unit_test(nested_ranges_are_found_innermost_first),
        cmocka_unit_test(jit_code_is_named_by_the_map_of_its_process),
        cmocka_unit_test(a_map_left_by_an_older_process_is_not_believed),
        cmocka_unit_test(a_map_of_another_user_is_not_believed),
        cmocka_unit_test(a_huge_map_is_not_read),
        cmocka_unit_test(a_fork_uses_the_map_of_its_parent),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
