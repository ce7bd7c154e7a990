// SPDX-License-Identifier: MIT
// Tables of locations as CPython 3.11 makes them, and places of functions.

#include "track/runtimes/python_code.h"
#include "track/runtimes/runtime_names.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// def f(a, b): a sum over two lines, a loop, two empty lines, a return.
static const unsigned char table[] = {
    0x80, 0x00, 0xd8, 0x09, 0x0a, 0xd8, 0x09, 0x0a, 0xf1, 0x03, 0x01, 0x0a, 0x0b, 0x80,
    0x41, 0xe5, 0x0d, 0x12, 0x90, 0x31, 0x89, 0x58, 0x8c, 0x58, 0xf0, 0x00, 0x01, 0x05,
    0x0f, 0xf0, 0x00, 0x01, 0x05, 0x0f, 0x88, 0x01, 0xd8, 0x08, 0x09, 0x88, 0x51, 0x89,
    0x06, 0x88, 0x01, 0x88, 0x01, 0xf0, 0x06, 0x00, 0x0c, 0x0d, 0x80, 0x48};
// code.co_lines() of it, by units of two bytes.
static const uint32_t lines[] = {1, 2, 3, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
                                 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 8, 8};

static void test_lines(void **state)
{
    (void)state;
    for (uint32_t unit = 0; unit < sizeof lines / sizeof *lines; unit++)
        assert_int_equal(python_line(table, table + sizeof table, 1, unit), lines[unit]);
    assert_int_equal(python_line(table, table + sizeof table, 1, sizeof lines / sizeof *lines), 0);
}

// Memory that is no table: it ends, and nothing beyond it is read.
static void test_damage(void **state)
{
    (void)state;
    for (size_t length = 0; length < 300; length++) {
        unsigned char *noise = malloc(length + 1);
        srand((unsigned)length);
        for (size_t i = 0; i < length; i++)
            noise[i] = (unsigned char)rand();
        for (uint32_t unit = 0; unit < 1000; unit += 7)
            python_line(noise, noise + length, 1, unit);
        free(noise);
    }
}

static void test_places(void **state)
{
    (void)state;
    const place_t one = runtime_place(MODULE_PYTHON, runtime_hash(1, 2));
    assert_int_equal(place_module(one), MODULE_PYTHON);
    assert_int_equal(place_module(one + 1), MODULE_PYTHON);
    assert_int_equal(one % 2, 0);
    assert_int_not_equal(one, runtime_place(MODULE_PYTHON, runtime_hash(1, 3)));
    assert_int_not_equal(place_offset(runtime_place(MODULE_PYTHON, 0)), 0);
    assert_true(place_offset(runtime_place(MODULE_PYTHON, UINT64_MAX)) + 1 < PLACE_OFFSET_UNKNOWN);
    assert_true(runtime_names_lack(one));
    assert_false(runtime_names_lack(one));
    assert_null(runtime_name_new(1, 1)); // there is no memory yet
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
