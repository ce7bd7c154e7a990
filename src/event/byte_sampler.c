// SPDX-License-Identifier: MIT
#include "event/byte_sampler.h"

// Fixed point with 57 bits behind the point.
enum { BITS = 57 };

#define ONE (UINT64_C(1) << BITS)
#define LN2 UINT64_C(99893036290645747) // ln 2

__extension__ typedef unsigned __int128 wide;

static uint64_t times(uint64_t a, uint64_t b)
{
    return (uint64_t)((wide)a * b >> BITS);
}

// xorshift64*, whose state is never 0.
static uint64_t next_random(uint64_t *state)
{
    uint64_t value = *state;
    value ^= value >> 12;
    value ^= value << 25;
    value ^= value >> 27;
    *state = value;
    return value * UINT64_C(0x2545f4914f6cdd1d);
}

// -log2 of value / 2^64, for a value that is not 0. Each squaring gives a bit of the fraction.
static uint64_t minus_log2(uint64_t value)
{
    const unsigned zeros = (unsigned)__builtin_clzll(value);
    uint64_t mantissa = value << zeros, fraction = 0; // of [1, 2), with 63 bits behind the point
    for (unsigned bit = 1; bit <= 40; bit++) {
        const wide square = (wide)mantissa * mantissa;
        const bool doubled = square >> 127;
        mantissa = (uint64_t)(square >> (doubled ? 64 : 63));
        fraction |= (uint64_t)doubled << (BITS - bit);
    }
    // value / 2^64 is the mantissa over 2^(zeros + 1).
    return ((uint64_t)(zeros + 1) << BITS) - fraction;
}

// Exponential, with this mean.
static uint64_t draw_gap(uint64_t *random, uint64_t period)
{
    uint64_t value = next_random(random);
    return (uint64_t)((wide)times(minus_log2(value ? value : 1), LN2) * period >> BITS);
}

// e^-x, for an x below 64.
static uint64_t exp_minus(uint64_t x)
{
    const uint64_t halvings = x / LN2, rest = x % LN2;
    uint64_t sum = ONE, term = ONE;
    for (unsigned i = 1; term; i++) {
        term = times(term, rest) / i;
        sum += i % 2 ? -term : term;
    }
    return halvings < 64 ? sum >> halvings : 0;
}

bool byte_sampler_takes(struct byte_sampler *sampler, uint64_t size, uint64_t period, uint64_t seed)
{
    if (sampler->random == 0) {
        sampler->random = seed ? seed : 1;
        sampler->left = draw_gap(&sampler->random, period);
        if (byte_sampler_skips(sampler, size))
            return false;
    }
    // From the end of the block on, not from the hit: the process has no memory.
    sampler->left = draw_gap(&sampler->random, period);
    return true;
}

struct block_weight byte_sampler_weight(uint64_t size, uint64_t period)
{
    if (size / 32 >= period) // a block that is missed with a chance of less than 1e-13
        return (struct block_weight){.bytes = size, .blocks = 1 << BYTE_SAMPLER_SHIFT};
    const uint64_t missed = exp_minus((uint64_t)((((wide)size + 1) << BITS) / period)),
                   hit = ONE - missed;
    const uint64_t blocks = (uint64_t)((((wide)ONE << BYTE_SAMPLER_SHIFT) + hit / 2) / hit);
    // (1 - p) / p^2, rounded up.
    const wide variance = (wide)blocks * blocks >> BYTE_SAMPLER_SHIFT;
    return (struct block_weight){
        .bytes = (uint64_t)((((wide)size << BITS) + hit / 2) / hit),
        .blocks = blocks,
        .variance = (uint64_t)((variance >> BYTE_SAMPLER_SHIFT) * missed >> BITS) + 1,
    };
}
