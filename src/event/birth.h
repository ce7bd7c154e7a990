// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_BIRTH_H
#define CAIRN_EVENT_BIRTH_H

// When a block was allocated, in ten bits: seconds since the recording began, rounded down.
//
//   [ exponent: 5 | mantissa: 5 ]     up to a minute each second has a number of its own;
//                                     later numbers are right to one part of 32
//
// The tool publishes the number once a second (live_session.birth), so that no block takes a look
// at a clock.

#include <stdint.h>

enum { BIRTH_BITS = 10, BIRTH_MANTISSA = 5, BIRTH_MOST = (1 << BIRTH_BITS) - 1 };

// The time of a recording, in seconds.
static inline uint64_t birth_clock(uint64_t ns)
{
    return (ns + 500000000) / 1000000000;
}

static inline uint32_t birth_of(uint64_t seconds)
{
    const unsigned power = 63 - (unsigned)__builtin_clzll(seconds | 1);
    if (power <= BIRTH_MANTISSA)
        return (uint32_t)seconds;
    const uint64_t birth = ((uint64_t)(power - BIRTH_MANTISSA) << BIRTH_MANTISSA) +
                           (seconds >> (power - BIRTH_MANTISSA));
    return (uint32_t)(birth < BIRTH_MOST ? birth : BIRTH_MOST);
}

static inline uint64_t birth_seconds(uint32_t birth)
{
    const uint64_t one = UINT64_C(1) << BIRTH_MANTISSA, mantissa = birth & (one - 1);
    const unsigned exponent = birth >> BIRTH_MANTISSA;
    return exponent == 0 ? mantissa : (one + mantissa) << (exponent - 1);
}

#endif
