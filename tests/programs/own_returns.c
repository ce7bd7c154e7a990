// SPDX-License-Identifier: MIT
// As a program in OCaml: its runtime looks up the return address of each of its frames in a table,
// and has no answer for another one. By frame pointers here, where that one has sizes of frames.

#include "common.h"

#define DEPTH 40
#define ROUNDS 4000

// What such programs export for their plugins.
__attribute__((visibility("default"))) const void *caml_frametable[1];

extern const char __executable_start, etext;

static const void *outermost;

NOIPA static void collect(void)
{
    const void *const *frame = __builtin_frame_address(0);
    for (; frame != outermost; frame = *frame)
        CHECK((const char *)frame[1] > &__executable_start && (const char *)frame[1] < &etext);
}

NOIPA static uint64_t deeper(int depth, uint64_t seed)
{
    if (depth == 0) {
        collect();
        seed = burn(seed, 2);
        collect();
        return seed;
    }
    seed = deeper(depth - 1, seed) + 1;
    if (depth % 8 == 0)
        collect();
    return seed;
}

int main(void)
{
    uint64_t seed = 1;
    outermost = __builtin_frame_address(0);
    for (int i = 0; i < ROUNDS; i++)
        seed = deeper(DEPTH + i % 3, seed);
    printf("%llu\n", (unsigned long long)seed);
    return 0;
}
