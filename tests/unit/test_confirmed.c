// SPDX-License-Identifier: MIT
// The table of contexts that a walk has confirmed: what was put is found, two that share a place are
// both kept, and what is known of one context comes together.
#include "track/encode/threads/confirmed.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct confirmed_table table;

static int setup(void **unused)
{
    (void)unused;
    memset(&table, 0, sizeof table);
    return 0;
}

static struct confirmed call_of(uint64_t key)
{
    return (struct confirmed){.key = key, .at = 0x401000, .caller = 7, .slot = 40, .stamp = 3};
}

static void test_what_was_put_is_found(void **unused)
{
    (void)unused;
    assert_null(confirmed_find(&table, 12345, 0x401000));
    struct confirmed one = call_of(12345);
    one.node = 9;
    confirmed_put(&table, &one);
    const struct confirmed *found = confirmed_find(&table, 12345, 0x401000);
    assert_non_null(found);
    assert_memory_equal(found, &one, sizeof one);
    assert_null(confirmed_find(&table, 12345, 0x401001));
    assert_null(confirmed_find(&table, 12345, confirmed_frame(0x401000)));
}

static void test_two_share_a_place(void **unused)
{
    (void)unused;
    struct confirmed one = call_of(5), other = call_of(5 + UINT64_C(77) * CONFIRMED_MOST);
    confirmed_put(&table, &one);
    confirmed_put(&table, &other);
    assert_non_null(confirmed_find(&table, one.key, one.at));
    assert_non_null(confirmed_find(&table, other.key, other.at));
    // One of another encoding gives way.
    struct confirmed newer = call_of(5 + UINT64_C(78) * CONFIRMED_MOST);
    newer.stamp++;
    confirmed_put(&table, &newer);
    assert_null(confirmed_find(&table, one.key, one.at));
    assert_non_null(confirmed_find(&table, other.key, other.at));
    assert_non_null(confirmed_find(&table, newer.key, newer.at));
}

static void test_what_is_known_comes_together(void **unused)
{
    (void)unused;
    struct confirmed event = call_of(99), asked = call_of(99);
    event.tree = 4, event.node = 8;
    asked.handle = 16, asked.sp = 32;
    confirmed_put(&table, &event);
    confirmed_put(&table, &asked);
    const struct confirmed *found = confirmed_find(&table, 99, event.at);
    assert_true(found->node == 8 && found->tree == 4 && found->handle == 16 && found->sp == 32);
    confirmed_put(&table, &event);
    assert_true(found->handle == 16 && found->sp == 32);
    // Of another stack, or another encoding, nothing is kept.
    event.caller++;
    confirmed_put(&table, &event);
    assert_true(found->handle == 0 && found->node == 8);
}

static void test_readers_notice_changes(void **unused)
{
    (void)unused;
    const struct confirmed one = call_of(1);
    const uint32_t changes = confirmed_changes(&table);
    assert_true(confirmed_is_whole(&table, changes));
    confirmed_put(&table, &one);
    assert_false(confirmed_is_whole(&table, changes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_was_put_is_found, setup),
        cmocka_unit_test_setup(test_two_share_a_place, setup),
        cmocka_unit_test_setup(test_what_is_known_comes_together, setup),
        cmocka_unit_test_setup(test_readers_notice_changes, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
