// SPDX-License-Identifier: MIT
// Sampled blocks: how often a block is sampled, what it stands for, and how often the truth lies in
// the interval that is told.

#include "event/byte_sampler.h"
#include "profile/queries/sampling_error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static double chance(uint64_t size, uint64_t period)
{
    return -expm1(-((double)size + 1) / (double)period);
}

static void assert_near(double value, double expected, double relative, double absolute)
{
    if (fabs(value - expected) > relative * expected + absolute)
        fail_msg("%.9g instead of %.9g", value, expected);
}

static void weighs_by_the_chance_of_a_sample(void **state)
{
    (void)state;
    const uint64_t periods[] = {2, 10, 1000, 512 << 10, 1 << 30};
    for (unsigned i = 0; i < sizeof periods / sizeof *periods; i++)
        for (uint64_t size = 0; size < 100 * periods[i]; size = size * 2 + 1) {
            const struct block_weight weight = byte_sampler_weight(size, periods[i]);
            const double p = chance(size, periods[i]);
            assert_near((double)weight.blocks / (1 << BYTE_SAMPLER_SHIFT), 1 / p, 1e-5, 1e-5);
            assert_near((double)weight.bytes, (double)size / p, 1e-7, 0.51);
            assert_near((double)weight.variance, (1 - p) / p / p, 1e-3, 1.01);
        }
}

// Blocks of each size between others, so that the memory of the process would show.
static void samples_as_often_as_it_says(void **state)
{
    (void)state;
    enum { ROUNDS = 200000 };
    static const uint64_t sizes[] = {0, 5, 99, 700, 3000};
    const uint64_t period = 1000;
    unsigned sampled[5] = {0};
    struct byte_sampler sampler = {.left = 0};
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < 5; i++)
            if (!byte_sampler_skips(&sampler, sizes[i]))
                sampled[i] += byte_sampler_takes(&sampler, sizes[i], period, 42);
    for (unsigned i = 0; i < 5; i++) {
        const double p = chance(sizes[i], period), deviation = sqrt(ROUNDS * p * (1 - p));
        assert_near(sampled[i], ROUNDS * p, 0, 4 * deviation);
    }
}

static void a_thread_has_gaps_of_its_own(void **state)
{
    (void)state;
    unsigned same = 0;
    for (uint64_t seed = 1; seed < 1000; seed++) {
        struct byte_sampler one = {.left = 0}, other = {.left = 0};
        byte_sampler_takes(&one, 0, 1 << 20, seed);
        byte_sampler_takes(&other, 0, 1 << 20, seed * UINT64_C(0x9e3779b97f4a7c15));
        same += one.left == other.left;
    }
    assert_in_range(same, 0, 2); // seed 0 would be 1
}

struct estimate {
    double bytes, blocks, variance;
};

static struct estimate run(const uint64_t *sizes, unsigned kinds, unsigned count, uint64_t period,
                           uint64_t seed)
{
    struct estimate sum = {.bytes = 0};
    struct byte_sampler sampler = {.left = 0};
    for (unsigned i = 0; i < count; i++) {
        const uint64_t size = sizes[i % kinds];
        if (byte_sampler_skips(&sampler, size) || !byte_sampler_takes(&sampler, size, period, seed))
            continue;
        const struct block_weight weight = byte_sampler_weight(size, period);
        sum.bytes += (double)weight.bytes;
        sum.blocks += (double)weight.blocks / (1 << BYTE_SAMPLER_SHIFT);
        sum.variance += (double)weight.variance;
    }
    return sum;
}

// In 4,000 runs, 200 are expected outside, with a standard deviation of 14.
static void truth_lies_in_the_interval(const uint64_t *sizes, unsigned kinds, unsigned count)
{
    enum { RUNS = 4000 };
    const uint64_t period = 4096;
    double bytes = 0, sum_bytes = 0, sum_blocks = 0, sum_variance = 0;
    unsigned bytes_inside = 0, blocks_inside = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += (double)sizes[i % kinds];
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        const struct estimate estimate =
            run(sizes, kinds, count, period, seed * UINT64_C(0x9e3779b97f4a7c15));
        bytes_inside += fabs(estimate.bytes - bytes) <=
                        sampling_error(estimate.bytes, estimate.bytes * (double)period);
        blocks_inside +=
            fabs(estimate.blocks - count) <= sampling_error(estimate.blocks, estimate.variance);
        sum_bytes += estimate.bytes;
        sum_blocks += estimate.blocks;
        sum_variance += estimate.variance;
    }
    assert_in_range(bytes_inside, RUNS * 94 / 100, RUNS);
    assert_in_range(blocks_inside, RUNS * 94 / 100, RUNS);
    // No bias: the mean of all runs lies within four of its own standard deviations.
    assert_near(sum_bytes / RUNS, bytes, 0, 4 * sqrt(bytes * (double)period / RUNS));
    assert_near(sum_blocks / RUNS, count, 0, 4 * sqrt(sum_variance / RUNS / RUNS));
    if (sizes[0] * 20 < period) // the interval is not wider than it must be
        assert_in_range(bytes_inside, 0, RUNS * 97 / 100);
}

static void interval_of_small_blocks(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {100, 60, 80, 150, 40};
    truth_lies_in_the_interval(sizes, 5, 3000);
}

static void interval_of_blocks_around_the_period(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {3000, 400, 5000, 200, 9000, 1000};
    truth_lies_in_the_interval(sizes, 6, 6000);
}

static void large_blocks_are_exact(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {200000};
    const struct estimate estimate = run(sizes, 1, 1000, 4096, 1);
    assert_true(estimate.bytes == 200e6 && estimate.blocks == 1000 && estimate.variance == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighs_by_the_chance_of_a_sample),
        cmocka_unit_test(samples_as_often_as_it_says),
        cmocka_unit_test(a_thread_has_gaps_of_its_own),
        cmocka_unit_test(interval_of_small_blocks),
        cmocka_unit_test(interval_of_blocks_around_the_period),
        cmocka_unit_test(large_blocks_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
