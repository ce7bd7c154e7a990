// SPDX-License-Identifier: MIT
// What a module exports, asked of its tables in memory: whole, and damaged anywhere.

#include "loadmap/dynamic.h"
#include "loadmap/image.h"
// after those above
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

#define DAMAGES 20000

struct wanted {
    const void *address; // in the module
    struct dynamic dynamic;
    bool found;
};

static int find_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct wanted *wanted = context;
    struct image image;
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    const uintptr_t address = (uintptr_t)wanted->address;
    if (address < image.ref.start || address >= image.ref.end)
        return 0;
    wanted->found = dynamic_read(&wanted->dynamic, &image.ref, info->dlpi_addr, info->dlpi_phdr,
                                 info->dlpi_phnum);
    image_find_runtime(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    assert_int_equal(image.ref.runtime, RUNTIME_NONE);
    return 1;
}

static struct dynamic of_libc(void)
{
    // Not a function that a sanitizer has a version of its own of.
    struct wanted wanted = {.address = dlsym(RTLD_DEFAULT, "gnu_get_libc_version")};
    dl_iterate_phdr(find_module, &wanted);
    assert_true(wanted.found);
    return wanted.dynamic;
}

static struct dynamic of_symbol(const char *name)
{
    struct wanted wanted = {.address = dlsym(RTLD_DEFAULT, name)};
    dl_iterate_phdr(find_module, &wanted);
    assert_true(wanted.found);
    return wanted.dynamic;
}

static void test_parts_of_libc_are_known_by_their_versions(void **state)
{
    (void)state;
    static const struct {
        const char *file, *function;
    } parts[] = {{"libm.so.6", "cosh"}, {"libresolv.so.2", "ns_get16"}};
    const struct dynamic libc = of_libc(), other = of_symbol("_cmocka_run_group_tests");
    assert_true(dynamic_is_libc(&libc));
    assert_false(dynamic_is_libc(&other));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_non_null(dlopen(parts[i].file, RTLD_NOW | RTLD_GLOBAL));
        const struct dynamic part = of_symbol(parts[i].function);
        assert_true(dynamic_is_libc(&part));
    }
}

static void test_only_what_a_module_defines_is_exported(void **state)
{
    (void)state;
    const struct dynamic libc = of_libc();
    static const char *const exported[] = {"qsort", "malloc", "printf", "environ", "getpid"};
    static const char *const not_exported[] = {
        "", "qsor", "qsortt", "cmocka_run_group_tests", "__tls_get_addr", "caml_frametable"};
    for (size_t i = 0; i < sizeof exported / sizeof *exported; i++)
        assert_true(dynamic_exports(&libc, exported[i]));
    // __tls_get_addr is there, but the loader's.
    for (size_t i = 0; i < sizeof not_exported / sizeof *not_exported; i++)
        assert_false(dynamic_exports(&libc, not_exported[i]));
}

// The tables of libc in memory of our own, to the byte, so that a sanitizer sees each read outside.
static struct dynamic copied(const struct dynamic *from, unsigned char *into)
{
    struct dynamic copy = *from;
    const uintptr_t moved = (uintptr_t)into - from->start;
    copy.start += moved;
    copy.end = copy.start + (from->strings + from->string_bytes - from->start);
    copy.symbols += moved;
    copy.strings += moved;
    copy.hash += moved;
    return copy;
}

static void test_damaged_tables_export_nothing_and_do_no_harm(void **state)
{
    (void)state;
    const struct dynamic libc = of_libc();
    const size_t bytes = libc.strings + libc.string_bytes - libc.start;
    assert_true(libc.hash < libc.strings && libc.symbols < libc.strings && bytes < 1 << 22);
    unsigned char *memory = malloc(bytes);
    memcpy(memory, (const void *)libc.start, bytes);
    const struct dynamic copy = copied(&libc, memory);
    assert_true(dynamic_exports(&copy, "qsort"));

    unsigned seed = 1;
    unsigned char *hash = (unsigned char *)copy.hash;
    const size_t head = 16, tables = copy.strings - copy.hash;
    for (unsigned i = 0; i < DAMAGES; i++) {
        // The head is what leads astray most.
        size_t at = (size_t)rand_r(&seed) % (i % 2 ? head : tables);
        const unsigned char before = hash[at];
        hash[at] = (unsigned char)rand_r(&seed);
        dynamic_exports(&copy, "qsort");
        dynamic_exports(&copy, "caml_frametable");
        hash[at] = before;
    }
    // Chains that never end, and names that lead outside.
    memset(hash + head, 0xfe, tables - head);
    assert_false(dynamic_exports(&copy, "qsort"));
    memset(hash, 0xff, tables);
    assert_false(dynamic_exports(&copy, "qsort"));
    memset(hash, 0, tables);
    assert_false(dynamic_exports(&copy, "qsort"));
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_a_module_defines_is_exported),
        cmocka_unit_test(test_parts_of_libc_are_known_by_their_versions),
        cmocka_unit_test(test_damaged_tables_export_nothing_and_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
