// SPDX-License-Identifier: MIT
// Functions of the kernel: from /proc/kallsyms to a profile, and through a merge.

#include "make_profile.h"
#include "merge_from_memory.h"
#include "profile/recorder/kernel_symbols.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// after those above
#include <cmocka.h>

static struct kernel_symbols *read_text(const char *text)
{
    FILE *file = fmemopen((void *)text, strlen(text), "r");
    struct kernel_symbols *symbols = kernel_symbols_read(file);
    fclose(file);
    return symbols;
}

static void finds_functions_by_address(void **state)
{
    (void)state;
    struct kernel_symbols *symbols = read_text("0000000000000000 A fixed_percpu_data\n"
                                               "ffffffff81002000 t later\n"
                                               "ffffffff81000000 T _stext\n"
                                               "ffffffff81001000 T __alias\n"
                                               "ffffffff81001000 T plain\n"
                                               "ffffffff81001800 D data\n"
                                               "not a line at all\n"
                                               "ffffffffc0000000 t in_module\t[ext4]\n");
    assert_non_null(symbols);
    assert_string_equal(kernel_symbols_find(symbols, UINT64_C(0xffffffff81001fff))->name, "plain");
    assert_string_equal(kernel_symbols_find(symbols, UINT64_C(0xffffffff81002000))->name, "later");
    assert_string_equal(kernel_symbols_find(symbols, UINT64_C(0xffffffffc0000010))->name,
                        "in_module [ext4]");
    assert_null(kernel_symbols_find(symbols, UINT64_C(0xffffffff80ffffff)));
    assert_null(kernel_symbols_find(symbols, UINT64_C(0xffffffffd0000000)));
    kernel_symbols_free(symbols);
}

static void hidden_addresses_are_none(void **state)
{
    (void)state;
    assert_null(read_text("0000000000000000 T _stext\n0000000000000000 T plain\n"));
    assert_null(read_text("\n"));
}

static struct profile *with_function(uint8_t boot, const char *name)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    const unsigned kernel = make_module(profile, PLACE_KERNEL);
    profile->modules[kernel].build_id_bytes = 1;
    profile->modules[kernel].build_id[0] = boot;
    const unsigned process = make_process(profile, 100, 1, "app");
    const unsigned tree = make_tree(profile, process, 0);
    make_statement(profile, tree, 0, place_make(kernel, 0x81000010), 5);
    profile->functions = calloc(1, sizeof *profile->functions);
    profile->functions[0].begin = place_make(kernel, 0x81000000);
    profile->functions[0].bytes = 0x100;
    make_text(&profile->functions[0].name, name);
    profile->function_count = 1;
    make_text(&profile->kernel, "frames");
    return profile;
}

static void profiles_keep_them(void **state)
{
    (void)state;
    char path[] = "/tmp/cairn-kernel-XXXXXX", *error = NULL;
    close(mkstemp(path));
    struct profile *profile = with_function(1, "vfs_read");
    assert_int_equal(profile_write(profile, path), 0);
    struct profile *read = profile_read(path, &error);
    assert_non_null(read);
    assert_string_equal(read->kernel, "frames");
    assert_int_equal(read->function_count, 1);
    assert_int_equal(read->functions[0].begin, profile->functions[0].begin);
    assert_int_equal(read->functions[0].bytes, 0x100);
    assert_string_equal(read->functions[0].name, "vfs_read");
    profile_free(read);
    profile_free(profile);
    unlink(path);
}

static unsigned merged_functions(struct profile *one, struct profile *other)
{
    struct profile *both[] = {one, other};
    char *error = NULL;
    struct profile *merged = profile_merge(&(struct merge_source){2, merge_from_memory, both, NULL},
                                           MERGE_BY_PROGRAM, &error);
    assert_non_null(merged);
    const unsigned count = merged->function_count;
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(merged->modules[place_module(merged->functions[i].begin)].path,
                            PLACE_KERNEL);
    profile_free(merged);
    profile_free(one);
    profile_free(other);
    return count;
}

static void boots_stay_apart(void **state)
{
    (void)state;
    assert_int_equal(merged_functions(with_function(1, "read"), with_function(1, "read")), 1);
    assert_int_equal(merged_functions(with_function(1, "read"), with_function(2, "write")), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_functions_by_address),
        cmocka_unit_test(hidden_addresses_are_none),
        cmocka_unit_test(profiles_keep_them),
        cmocka_unit_test(boots_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
