// SPDX-License-Identifier: MIT
// What a counter of the processor has counted, by pages as the kernel fills them: also where there
// are no such counters.

#include "event/counter.h"
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct live_options by_page = {.counter_count = 1,
                                            .counters = {{.rest = LIVE_REST_PAGE}}};

struct fake {
    struct perf_event_mmap_page *page;
    struct counters counters;
};

static struct fake begin(void)
{
    struct fake fake = {.page = aligned_alloc(RING_BYTES, 2 * RING_BYTES)};
    assert_non_null(fake.page);
    memset(fake.page, 0, 2 * RING_BYTES);
    fake.counters = (struct counters){.count = 1};
    const uintptr_t has_ring = 1;
    fake.counters.each[0].event = (struct mapped_event){(uintptr_t)fake.page | has_ring, -1};
    assert_ptr_equal(mapped_event_ring(&fake.counters.each[0].event), fake.page);
    return fake;
}

// As the kernel leaves it at an overflow: the count, and the times that the event was enabled and
// on the processor.
static void overflow(const struct fake *fake, uint64_t count, uint64_t enabled, uint64_t running)
{
    const uint64_t words[] = {PERF_RECORD_SAMPLE | (uint64_t)sizeof(uint64_t) * 4 << 48, count,
                              enabled, running};
    char *data = (char *)fake->page + RING_BYTES;
    for (unsigned i = 0; i < 4; i++)
        memcpy(data + (fake->page->data_head + i * 8) % RING_BYTES, &words[i], 8);
    fake->page->data_head += sizeof words;
}

static void a_sample_weighs_what_was_counted(void **state)
{
    (void)state;
    struct fake fake = begin();
    uint64_t sum = 0;
    for (uint64_t i = 1; i <= 1000; i++) { // the ring goes round
        overflow(&fake, i * 1000 + i % 7, i * 50, i * 50);
        if (i % 3 == 0) // a tick was lost
            continue;
        sum += counter_news(&fake.counters, 0);
        counter_take(&fake.counters, 0);
        assert_int_equal(counter_news(&fake.counters, 0), 0);
        assert_int_equal(sum, i * 1000 + i % 7);
    }
    free(fake.page);
}

// On the processor for a quarter of the time: it stands for four times as much.
static void counters_that_take_turns_are_scaled(void **state)
{
    (void)state;
    struct fake fake = begin();
    overflow(&fake, 1000, 100, 100);
    assert_int_equal(counter_news(&fake.counters, 0), 1000);
    counter_take(&fake.counters, 0);
    overflow(&fake, 1500, 500, 200);
    assert_int_equal(counter_news(&fake.counters, 0), 500 * 4);
    counter_take(&fake.counters, 0);
    overflow(&fake, 1600, 600, 200); // nothing known of the time it ran
    assert_int_equal(counter_news(&fake.counters, 0), 100);
    free(fake.page);
}

static void the_rest_is_in_the_page(void **state)
{
    (void)state;
    struct fake fake = begin();
    overflow(&fake, 1000, 100, 100);
    fake.page->offset = 1234;
    assert_int_equal(counter_rest(&fake.counters, 0, &by_page), 1234);
    assert_int_equal(counter_rest(&fake.counters, 0, &by_page), 0);
    fake.page->offset = 1250;
    assert_int_equal(counter_rest(&fake.counters, 0, &by_page), 16);
    overflow(&fake, 1300, 130, 130); // of which 50 are new
    assert_int_equal(counter_news(&fake.counters, 0), 50);
    free(fake.page);
}

static void damaged_records_count_nothing(void **state)
{
    (void)state;
    struct fake fake = begin();
    fake.page->data_head = 3; // no place of a record
    assert_int_equal(counter_news(&fake.counters, 0), 0);
    fake.page->data_head = fake.page->data_tail + 3 * RING_BYTES;
    assert_int_equal(counter_news(&fake.counters, 0), 0);
    fake.counters.count = 0; // closed
    overflow(&fake, 1000, 100, 100);
    assert_int_equal(counter_news(&fake.counters, 0), 0);
    free(fake.page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_weighs_what_was_counted),
        cmocka_unit_test(counters_that_take_turns_are_scaled),
        cmocka_unit_test(the_rest_is_in_the_page),
        cmocka_unit_test(damaged_records_count_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
