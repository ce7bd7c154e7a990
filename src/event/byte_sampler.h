// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_BYTE_SAMPLER_H
#define CAIRN_EVENT_BYTE_SAMPLER_H

// Which blocks of memory are sampled, and what each of them stands for.
//
//   bytes that a thread allocates ─┬──┬─────┬┬───┬───────┬──►    one byte in `period` is hit,
//   blocks                         [  ][ ][ ✕ ][ ][  ✕  ][ ]     and a block with a hit is sampled
//
// The distances between hits are random and exponential (a Poisson process). So a block of s bytes
// is sampled with probability p = 1 - exp(-s/period), whatever was allocated before. It stands for
// 1/p blocks and s/p bytes: the sums over sampled blocks have no bias. A block counts as one byte
// more than it has, so that empty blocks are seen, too.
//
// All but the sampled blocks cost a subtraction. Integers alone: the agent has no floating point.
// Signal-safe; a handler that interrupts the same thread here changes where the next hit is.

#include "base/likely.h"
#include <stdbool.h>
#include <stdint.h>

// Of a thread. All 0: it has not begun.
struct byte_sampler {
    uint64_t left; // bytes to the next hit
    uint64_t random;
};

#define BYTE_SAMPLER_SHIFT 16 // of a weight's blocks

// A sampled block stands for so much.
struct block_weight {
    uint64_t bytes;
    uint64_t blocks;   // in parts of 1 << BYTE_SAMPLER_SHIFT
    uint64_t variance; // of the number of blocks
};

// True: no hit is in the block, and it is counted as allocated.
static inline bool byte_sampler_skips(struct byte_sampler *sampler, uint64_t size)
{
    if (UNLIKELY(sampler->left <= size))
        return false;
    sampler->left -= size + 1;
    return true;
}

// For a block that was not skipped: true if it is sampled. The seed is looked at the first time.
bool byte_sampler_takes(struct byte_sampler *sampler, uint64_t size, uint64_t period,
                        uint64_t seed);

struct block_weight byte_sampler_weight(uint64_t size, uint64_t period);

#endif
