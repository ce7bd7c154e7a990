// SPDX-License-Identifier: MIT
// What the kernel leaves in a ring is read as far as it makes sense, and nothing beyond it.

#include "event/ring.h"
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

#define KERNEL UINT64_C(0xffffffff81000000)

struct pages {
    union {
        struct perf_event_mmap_page head;
        char page[RING_BYTES];
    };
    uint64_t data[RING_BYTES / 8];
};

static struct pages *pages;

static int set_up(void **state)
{
    (void)state;
    pages = aligned_alloc(RING_BYTES, sizeof *pages);
    memset(pages, 0, sizeof *pages);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(pages);
    return 0;
}

static void put(uint64_t word)
{
    pages->data[pages->head.data_head % RING_BYTES / 8] = word;
    pages->head.data_head += 8;
}

static void put_head(unsigned type, unsigned words)
{
    put(type | (uint64_t)words * 8 << 48);
}

static void put_sample(uint64_t pc, unsigned count)
{
    put_head(PERF_RECORD_SAMPLE, 4 + count + (count > 0));
    put(count + (count > 0));
    if (count)
        put((uint64_t)PERF_CONTEXT_KERNEL);
    for (unsigned i = 0; i < count; i++)
        put(KERNEL + i);
    put(PERF_SAMPLE_REGS_ABI_64);
    put(pc);
}

static void reads_samples_in_order(void **state)
{
    (void)state;
    struct ring_sample sample;
    put_sample(0x1000, 0);
    put_head(PERF_RECORD_LOST, 3);
    put(0);
    put(0);
    put_sample(0x2000, 3);
    struct ring ring = ring_begin(pages);
    assert_true(ring_next(&ring, &sample));
    assert_int_equal(sample.pc, 0x1000);
    assert_int_equal(sample.count, 0);
    assert_true(ring_next(&ring, &sample));
    assert_int_equal(sample.pc, 0x2000);
    assert_int_equal(sample.count, 3);
    assert_int_equal(sample.address[0], KERNEL);
    assert_int_equal(sample.address[2], KERNEL + 2);
    assert_false(ring_next(&ring, &sample));
    ring_finish(&ring);
    assert_int_equal(pages->head.data_tail, pages->head.data_head);
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
}

static void goes_around(void **state)
{
    (void)state;
    struct ring_sample sample;
    pages->head.data_head = pages->head.data_tail = 7 * RING_BYTES - 16;
    put_sample(0x3000, 5);
    struct ring ring = ring_begin(pages);
    assert_true(ring_next(&ring, &sample));
    assert_int_equal(sample.pc, 0x3000);
    assert_int_equal(sample.count, 5);
    assert_int_equal(sample.address[4], KERNEL + 4);
}

static void takes_no_more_frames_than_there_is_room_for(void **state)
{
    (void)state;
    struct ring_sample sample;
    put_sample(0x4000, RING_FRAMES + 20);
    struct ring ring = ring_begin(pages);
    assert_true(ring_next(&ring, &sample));
    assert_int_equal(sample.count, RING_FRAMES);
    assert_int_equal(sample.pc, 0x4000);
}

static void stops_at_what_makes_no_sense(void **state)
{
    (void)state;
    struct ring_sample sample;
    struct ring ring;
    // Zeroes, as where the pages were taken away.
    pages->head.data_head = 64;
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
    // More than there is.
    pages->head.data_head = 3 * RING_BYTES;
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
    // A tail before its head.
    pages->head.data_tail = 4 * RING_BYTES;
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
    // A record that is longer than what is left, and a chain that is longer than its record.
    memset(pages, 0, sizeof *pages);
    put_head(PERF_RECORD_SAMPLE, 400);
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
    memset(pages, 0, sizeof *pages);
    put_head(PERF_RECORD_SAMPLE, 4);
    put(UINT64_MAX);
    put(0);
    put(0);
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
    // Without the register.
    memset(pages, 0, sizeof *pages);
    put_head(PERF_RECORD_SAMPLE, 3);
    put(0);
    put(PERF_SAMPLE_REGS_ABI_NONE);
    ring = ring_begin(pages);
    assert_false(ring_next(&ring, &sample));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_samples_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goes_around, set_up, tear_down),
        cmocka_unit_test_setup_teardown(takes_no_more_frames_than_there_is_room_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(stops_at_what_makes_no_sense, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
