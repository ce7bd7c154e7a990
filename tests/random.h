// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_RANDOM_H
#define CAIRN_TESTS_RANDOM_H

// Numbers by chance, which are the same everywhere: xorshift. Who wants others sets the state, to
// anything but 0.

#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static inline uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

#endif
