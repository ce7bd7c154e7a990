// SPDX-License-Identifier: MIT
// Tables of lines as HotSpot compresses them.

#include "track/runtimes/java_method.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// Position 0 is in line 5000, 2 in 5001, 8 in 5002, 14 in 5001 once more, 22 in 5003.
static const unsigned char table[] = {0xff, 0x00, 208, 153, 0x11, 0x31, 0xff, 12, 1, 0x42, 0x00};

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        uint32_t position, line;
    } known[] = {{0, 5000},  {1, 5000},  {2, 5001},  {7, 5001},  {8, 5002},
                 {13, 5002}, {14, 5001}, {21, 5001}, {22, 5003}, {200, 5003}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(java_line(table, sizeof table, known[i].position), known[i].line);
    assert_int_equal(java_line(table, 0, 5), 0);
}

// The order of a table is that of the compiler, not of the positions.
static void test_order(void **state)
{
    (void)state;
    // 0 in line 1, 10 in line 3, 4 in line 2.
    static const unsigned char mixed[] = {0x01, 0x52, 0xff, 11, 1, 0x00};
    assert_int_equal(java_line(mixed, sizeof mixed, 2), 1);
    assert_int_equal(java_line(mixed, sizeof mixed, 5), 2);
    assert_int_equal(java_line(mixed, sizeof mixed, 12), 3);
}

// Memory that is no table: it ends, and nothing beyond it is read.
static void test_damage(void **state)
{
    (void)state;
    for (size_t length = 0; length < 300; length++) {
        unsigned char *noise = malloc(length + 1);
        srand((unsigned)length);
        for (size_t i = 0; i < length; i++)
            noise[i] = (unsigned char)(1 + rand() % 255);
        for (uint32_t position = 0; position < 70000; position += 997)
            java_line(noise, length, position);
        free(noise);
    }
}

static unsigned notes;

static void count_note(const char *text)
{
    notes += text[0] != 0;
}

// Names beyond the room for them are said to be missing, once.
static void test_full(void **state)
{
    (void)state;
    unsigned lacking = 0;
    runtime_names_start(NULL, NULL, count_note);
    for (uint64_t i = 0; i < 1000; i++)
        lacking += runtime_names_lack(runtime_place(MODULE_JAVA, runtime_hash(1, i)));
    assert_int_equal(lacking, 1000);
    assert_int_equal(notes, 0);
    for (uint64_t i = 0; i < 200000; i++)
        lacking += runtime_names_lack(runtime_place(MODULE_JAVA, runtime_hash(2, i)));
    assert_in_range(lacking, 50000, 66000);
    assert_int_equal(notes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_damage), cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
