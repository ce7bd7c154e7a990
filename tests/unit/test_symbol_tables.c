// SPDX-License-Identifier: MIT
// Functions by symbol tables: of whole and stripped programs, of separate and embedded tables, of
// files that are not what was recorded.
#include "symbol_fixture.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

static void build(const char *flags, const char *name)
{
    fixture_run("gcc -O2 %s $SOURCES/inlines.c $SOURCES/main.c -o %s", flags, name);
}

static void assert_function(struct fixture *fixture, uint64_t offset, const char *name,
                            uint64_t start)
{
    const struct symbol *symbol = fixture_at(fixture, offset);
    assert_string_equal(symbol->frames[symbol->count - 1].function, name);
    assert_true(symbol->function == place_make(FIXTURE_MODULE, start));
}

// The functions of inlines.c and main.c, wherever the linker has put them; `file` has the symbols.
static void assert_whole_program(const char *path, const char *file)
{
    struct fixture fixture;
    fixture_open(&fixture, path, WITHOUT_LINES);
    uint64_t outer = fixture_offset(file, "outer"), splits = fixture_offset(file, "splits");
    assert_function(&fixture, outer, "outer", outer);
    assert_function(&fixture, outer + 3, "outer", outer);
    assert_function(&fixture, splits + 1, "splits", splits);
    // A label within a function is not a function.
    assert_function(&fixture, fixture_offset(file, "mark_innermost"), "outer", outer);
    assert_function(&fixture, fixture_offset(file, "splits.cold"), "splits", splits);
    assert_int_equal(symbols_quality(fixture.symbols, FIXTURE_MODULE), SYMBOLS_TABLE);
    fixture_close(&fixture);
}

static void functions_are_found_wherever_a_program_is_linked_to(void **state)
{
    (void)state;
    static const char *const flags[] = {"", "-no-pie", "-no-pie -Wl,-Ttext-segment=0x7000000",
                                        "-Wl,-Ttext-segment=0x10000000", "-Wl,-z,noseparate-code"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        build(flags[i], "linked");
        assert_whole_program(fixture_path("linked"), "linked");
    }
}

static void cold_parts_belong_to_their_own_function(void **state)
{
    (void)state;
    build("", "twins");
    // Two files have a function `twin`, each with a cold part.
    uint64_t hot[2], cold[2];
    for (int i = 0; i < 2; i++) {
        uint64_t base = fixture_base("twins");
        hot[i] = strtoull(fixture_output("nm -p twins | awk '$3==\"twin\"' | sed -n %dp", i + 1),
                          NULL, 16) -
                 base;
        cold[i] =
            strtoull(fixture_output("nm -p twins | awk '$3==\"twin.cold\"' | sed -n %dp", i + 1),
                     NULL, 16) -
            base;
        assert_true(hot[i] && cold[i] && hot[i] != cold[i]);
    }
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("twins"), WITHOUT_LINES);
    for (int i = 0; i < 2; i++) {
        assert_function(&fixture, cold[i], "twin", hot[i]);
        assert_function(&fixture, hot[i], "twin", hot[i]);
    }
    fixture_close(&fixture);
}

static void assembly_without_sizes_reaches_to_the_next_symbol(void **state)
{
    (void)state;
    build("", "assembly");
    uint64_t first = fixture_offset("assembly", "assembled");
    uint64_t next = fixture_offset("assembly", "assembled_next");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("assembly"), WITHOUT_LINES);
    assert_function(&fixture, first, "assembled", first);
    assert_function(&fixture, first + 3, "assembled", first);
    assert_function(&fixture, next - 1, "assembled", first);
    assert_function(&fixture, next, "assembled_next", next);
    fixture_close(&fixture);
}

static void stripped_libraries_have_exported_names_and_offsets(void **state)
{
    (void)state;
    fixture_run("gcc -O2 -shared -fPIC $SOURCES/inlines.c $SOURCES/main.c -o whole.so");
    fixture_run("strip -o stripped.so whole.so");
    uint64_t outer = fixture_offset("whole.so", "outer"), twin = fixture_offset("whole.so", "twin");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("stripped.so"), WITHOUT_LINES);
    assert_function(&fixture, outer + 2, "outer", outer);
    char unnamed[64];
    snprintf(unnamed, sizeof unnamed, "stripped.so+0x%llx", (unsigned long long)twin);
    assert_function(&fixture, twin, unnamed, twin);
    assert_function(&fixture, twin + 5, unnamed, twin); // by its unwind table, all of it
    assert_int_equal(symbols_quality(fixture.symbols, FIXTURE_MODULE), SYMBOLS_TABLE);
    fixture_close(&fixture);
}

// The ELF header says where a program is entered, and the code there where main is.
static void stripped_programs_keep_main(void **state)
{
    (void)state;
    static const char *const flags[] = {"", "-no-pie", "-static", "-static-pie"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        build(flags[i], "whole");
        fixture_run("strip -o stripped whole");
        uint64_t start = fixture_offset("whole", "_start"), main = fixture_offset("whole", "main");
        uint64_t outer = fixture_offset("whole", "outer");
        char unnamed[64];
        snprintf(unnamed, sizeof unnamed, "stripped+0x%llx", (unsigned long long)outer);
        struct fixture fixture;
        fixture_open(&fixture, fixture_path("stripped"), WITHOUT_LINES);
        assert_function(&fixture, start + 8, "_start", start);
        assert_function(&fixture, main, "main", main);
        assert_function(&fixture, outer, unnamed, outer);
        fixture_close(&fixture);
    }
}

static void nothing_after_the_last_exported_function_gets_its_name(void **state)
{
    (void)state;
    fixture_run("printf 'int last(void){return 7;}\\n"
                "static __attribute__((section(\".text.z\"),noinline,used)) int local(int x)"
                "{ return x*3; }\\n' > last.c");
    fixture_run("gcc -O2 -shared -fPIC -fno-asynchronous-unwind-tables -fno-unwind-tables last.c "
                "-o last.so");
    uint64_t last = fixture_offset("last.so", "last"), local = fixture_offset("last.so", "local");
    fixture_run("strip last.so");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("last.so"), WITHOUT_LINES);
    assert_string_equal(fixture_name(&fixture, last), "last");
    // Not even an unwind table: the place itself is all there is.
    char unnamed[64];
    snprintf(unnamed, sizeof unnamed, "last.so+0x%llx", (unsigned long long)local);
    const struct symbol *symbol = fixture_at(&fixture, local);
    assert_string_equal(symbol->frames[0].function, unnamed);
    assert_true(symbol->function == 0);
    assert_string_equal(fixture_name(&fixture, PLACE_OFFSET_UNKNOWN), "[last.so]");
    fixture_close(&fixture);
}

static void stubs_are_named_after_what_they_call(void **state)
{
    (void)state;
    static const char *const flags[] = {"", "-fcf-protection=full -Wl,-z,ibtplt", "-Wl,-z,now",
                                        "-no-pie -Wl,-z,lazy"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        build(flags[i], "stubs");
        fixture_run("strip stubs");
        uint64_t puts_stub = strtoull(
            fixture_output("objdump -d stubs | awk '/<puts@plt>:/{print $1; exit}'"), NULL, 16);
        assert_true(puts_stub != 0);
        puts_stub -= fixture_base("stubs");
        struct fixture fixture;
        fixture_open(&fixture, fixture_path("stubs"), WITHOUT_LINES);
        assert_function(&fixture, puts_stub, "puts@plt", puts_stub);
        assert_function(&fixture, puts_stub + 4, "puts@plt", puts_stub);
        fixture_close(&fixture);
    }
}

static void separate_files_are_found_by_link(void **state)
{
    (void)state;
    static const char *const build_ids[] = {"none", "sha1"};
    for (int i = 0; i < 2; i++) {
        char flags[64];
        snprintf(flags, sizeof flags, "-Wl,--build-id=%s", build_ids[i]);
        build(flags, "linked_to");
        fixture_run("rm -rf .debug && mkdir .debug && objcopy --only-keep-debug linked_to "
                    ".debug/linked_to.debug");
        fixture_run("strip -o apart linked_to && cd .debug && objcopy "
                    "--add-gnu-debuglink=linked_to.debug ../apart");
        assert_whole_program(fixture_path("apart"), "linked_to");
    }
    // A debug file that belongs to another build is worse than none.
    fixture_run("gcc -O1 -Wl,--build-id=sha1 $SOURCES/inlines.c $SOURCES/main.c -o other");
    fixture_run("objcopy --only-keep-debug other .debug/linked_to.debug");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("apart"), WITHOUT_LINES);
    assert_non_null(
        strstr(fixture_name(&fixture, fixture_offset("linked_to", "outer")), "apart+0x"));
    fixture_close(&fixture);
}

static void separate_files_are_found_by_build_id(void **state)
{
    (void)state;
    build("-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567", "with_id");
    fixture_run("mkdir -p debug/.build-id/01 && objcopy --only-keep-debug with_id "
                "debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug");
    fixture_run("strip -o by_id with_id");
    setenv("CAIRN_DEBUG_PATH", fixture_path("debug"), 1);
    assert_whole_program(fixture_path("by_id"), "with_id");
    unsetenv("CAIRN_DEBUG_PATH");
}

static void tables_embedded_in_stripped_programs_are_read(void **state)
{
    (void)state;
    if (!fixture_has("xz")) {
        print_message("skipped: no xz\n");
        skip();
    }
    build("", "full");
    fixture_run("objcopy --only-keep-debug full mini && strip --strip-debug mini && xz -kf mini");
    fixture_run("strip -o embedded full && objcopy --add-section .gnu_debugdata=mini.xz embedded");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("embedded"), WITHOUT_LINES);
    uint64_t outer = fixture_offset("full", "outer"), twin = fixture_offset("full", "call_twin");
    assert_function(&fixture, outer + 1, "outer", outer);
    assert_function(&fixture, twin + 1, "call_twin", twin);
    assert_function(&fixture, fixture_offset("full", "splits.cold"), "splits",
                    fixture_offset("full", "splits"));
    fixture_close(&fixture);
}

static void a_file_that_has_changed_gives_no_wrong_names(void **state)
{
    (void)state;
    build("-Wl,--build-id=0xaabbccdd", "changing");
    uint64_t outer = fixture_offset("changing", "outer");
    static const uint8_t now[] = {0xaa, 0xbb, 0xcc, 0xdd}, then[] = {0xaa, 0xbb, 0xcc, 0xde};
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("changing"), WITH_LINES);
    memcpy(fixture.modules[FIXTURE_MODULE].build_id, now, 4);
    fixture.modules[FIXTURE_MODULE].build_id_bytes = 4;
    assert_string_equal(fixture_name(&fixture, outer), "outer");
    fixture_close(&fixture);

    fixture_open(&fixture, fixture_path("changing"), WITH_LINES);
    memcpy(fixture.modules[FIXTURE_MODULE].build_id, then, 4);
    fixture.modules[FIXTURE_MODULE].build_id_bytes = 4;
    for (unsigned i = 0; i < 16; i++)
        assert_non_null(strstr(fixture_name(&fixture, outer + i), "changing+0x"));
    assert_true(fixture_has_note(&fixture, "has changed since the recording (build id aabbccde"));
    assert_int_equal(fixture_notes(&fixture), 1);
    assert_int_equal(symbols_quality(fixture.symbols, FIXTURE_MODULE), SYMBOLS_NONE);
    fixture_close(&fixture);

    // The note says where the old file can be put.
    fixture_run(
        "mkdir -p kept/.build-id/aa && gcc -O2 -Wl,--build-id=0xaabbccde $SOURCES/inlines.c "
        "$SOURCES/main.c -o kept/.build-id/aa/bbccde");
    setenv("CAIRN_DEBUG_PATH", fixture_path("kept"), 1);
    fixture_open(&fixture, fixture_path("changing"), WITHOUT_LINES);
    memcpy(fixture.modules[FIXTURE_MODULE].build_id, then, 4);
    fixture.modules[FIXTURE_MODULE].build_id_bytes = 4;
    assert_string_equal(fixture_name(&fixture, fixture_offset("kept/.build-id/aa/bbccde", "outer")),
                        "outer");
    assert_int_equal(fixture_notes(&fixture), 0);
    fixture_close(&fixture);
    unsetenv("CAIRN_DEBUG_PATH");
}

static void files_that_are_missing_or_not_programs_are_noted_once(void **state)
{
    (void)state;
    fixture_run("echo hello > text && mkdir -p folder && : > empty && mkfifo pipe");
    build("-g", "cutting");
    fixture_run("head -c 5000 cutting > cut");
    static const char *const names[] = {"gone", "text", "folder", "empty", "pipe", "cut"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fixture fixture;
        fixture_open(&fixture, fixture_path(names[i]), WITH_LINES);
        char expected[64];
        snprintf(expected, sizeof expected, "%s+0x1234", names[i]);
        assert_string_equal(fixture_name(&fixture, 0x1234), expected);
        fixture_at(&fixture, 0x5678);
        assert_int_equal(fixture_notes(&fixture), 1);
        assert_true(fixture_has_note(&fixture, "its functions have no names"));
        fixture_close(&fixture);
    }
}

static void the_return_from_signals_is_recognised(void **state)
{
    (void)state;
    build("", "signals");
    fixture_run("strip -o signals_stripped signals");
    uint64_t start = fixture_offset("signals", "returns_from_signal");
    struct fixture fixture;
    fixture_open(&fixture, fixture_path("signals"), WITHOUT_LINES);
    assert_function(&fixture, start - 1, "returns_from_signal", start);
    assert_function(&fixture, start + 7, "returns_from_signal", start);
    fixture_close(&fixture);
    fixture_open(&fixture, fixture_path("signals_stripped"), WITHOUT_LINES);
    assert_function(&fixture, start - 1, "__restore_rt", start - 1);
    assert_function(&fixture, start + 7, "__restore_rt", start - 1);
    fixture_close(&fixture);
}

static void a_profile_may_have_more_modules_than_descriptors(void **state)
{
    (void)state;
    enum { MANY = 600 };
    build("-g", "many");
    uint64_t outer = fixture_offset("many", "outer");
    static struct profile_module modules[MANY];
    const char *path = fixture_path("many");
    for (int i = MODULE_FIRST_FILE; i < MANY; i++)
        modules[i].path = (char *)path;
    struct profile profile = {.module_count = MANY, .modules = modules};
    struct rlimit before, few = {.rlim_cur = 256};
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    struct symbols *symbols = symbols_new(&profile, &(struct symbols_options){.inlines = true});
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = MODULE_FIRST_FILE; i < MANY; i++)
            symbols_want(symbols, 0, place_make(i, outer + round));
        symbols_resolve(symbols);
        for (unsigned i = MODULE_FIRST_FILE; i < MANY; i++) {
            const struct symbol *symbol = symbols_at(symbols, 0, place_make(i, outer + round));
            assert_string_equal(symbol->frames[symbol->count - 1].function, "outer");
            assert_int_equal(symbols_quality(symbols, i), SYMBOLS_DWARF);
        }
    }
    assert_null(symbols_note(symbols, 0));
    symbols_free(symbols);
    setrlimit(RLIMIT_NOFILE, &before);
}

static void the_vdso_is_read_from_memory(void **state)
{
    (void)state;
    unsigned long start = getauxval(AT_SYSINFO_EHDR);
    void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    char *function = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
    if (!start || !function) {
        print_message("skipped: no vDSO\n");
        skip();
    }
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    place_t place = place_make(MODULE_VDSO, (uint64_t)(uintptr_t)function - start);
    const struct symbol *symbol = symbols_at(fixture.symbols, 0, place);
    assert_non_null(strstr(symbol->frames[0].function, "clock_gettime"));
    assert_true(symbol->function == place);
    fixture_close(&fixture);
}

static void places_of_no_module_are_unknown(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, "/nowhere", WITH_LINES);
    assert_string_equal(symbols_at(fixture.symbols, 0, 0)->frames[0].function, "[unknown]");
    assert_string_equal(symbols_at(fixture.symbols, 0, place_make(999, 5))->frames[0].function,
                        "[unknown]");
    assert_int_equal(symbols_quality(fixture.symbols, 999), SYMBOLS_NONE);
    assert_int_equal(fixture_notes(&fixture), 0);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_found_wherever_a_program_is_linked_to),
        cmocka_unit_test(cold_parts_belong_to_their_own_function),
        cmocka_unit_test(assembly_without_sizes_reaches_to_the_next_symbol),
        cmocka_unit_test(stripped_libraries_have_exported_names_and_offsets),
        cmocka_unit_test(stripped_programs_keep_main),
        cmocka_unit_test(nothing_after_the_last_exported_function_gets_its_name),
        cmocka_unit_test(stubs_are_named_after_what_they_call),
        cmocka_unit_test(separate_files_are_found_by_link),
        cmocka_unit_test(separate_files_are_found_by_build_id),
        cmocka_unit_test(tables_embedded_in_stripped_programs_are_read),
        cmocka_unit_test(a_file_that_has_changed_gives_no_wrong_names),
        cmocka_unit_test(files_that_are_missing_or_not_programs_are_noted_once),
        cmocka_unit_test(the_return_from_signals_is_recognised),
        cmocka_unit_test(a_profile_may_have_more_modules_than_descriptors),
        cmocka_unit_test(the_vdso_is_read_from_memory),
        cmocka_unit_test(places_of_no_module_are_unknown),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
