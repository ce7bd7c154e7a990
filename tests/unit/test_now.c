// SPDX-License-Identifier: MIT
// The kernel's own time is that of libc, where nobody is in between.

#include "base/now.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static void clocks_agree(void **state)
{
    (void)state;
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC_COARSE,
                                       CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        struct timespec before, ours, after;
        assert_int_equal(clock_gettime(clocks[i], &before), 0);
        assert_int_equal(now_read(clocks[i], &ours), 0);
        assert_int_equal(clock_gettime(clocks[i], &after), 0);
        assert_true(ns_of(&before) <= ns_of(&ours) && ns_of(&ours) <= ns_of(&after));
    }
}

static void no_such_clock(void **state)
{
    (void)state;
    struct timespec time;
    assert_int_not_equal(now_read(4711, &time), 0);
}

// Asking the kernel each time would be right as well, and take ten times as long in a sample.
static void it_is_not_a_system_call(void **state)
{
    (void)state;
    extern const char etext[], __executable_start[];
    const uintptr_t function = (uintptr_t)now_read;
    assert_false(function >= (uintptr_t)__executable_start && function < (uintptr_t)etext);
}

static void the_process_is_this_one(void **state)
{
    (void)state;
    assert_int_equal(now_process(), getpid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_agree),
        cmocka_unit_test(no_such_clock),
        cmocka_unit_test(it_is_not_a_system_call),
        cmocka_unit_test(the_process_is_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
