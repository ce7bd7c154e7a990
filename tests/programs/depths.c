// SPDX-License-Identifier: MIT
// A stack that first grows so slowly that a sampler can follow, and then goes up and down at once.
//
//   main ─ stem × 40 ─┬─ near ─ spend
//                     └─ plunge × 100 ─ bottom ─ spend
//
// Prints "near" and "bottom" with the nanoseconds of CPU time spent there.

#include "common.h"

enum { STEMS = 40, PLUNGES = 100, ROUNDS = 40, STEP_NS = 3000000 };

static volatile uint64_t sink;
static uint64_t near_ns, bottom_ns;

NOIPA void spend(uint64_t nanoseconds)
{
    const uint64_t begin = thread_cpu_ns();
    while (thread_cpu_ns() - begin < nanoseconds)
        sink += burn(begin, 5);
    NO_TAIL_CALL();
}

NOIPA void near(void)
{
    spend(STEP_NS);
    near_ns += STEP_NS;
    NO_TAIL_CALL();
}

NOIPA void bottom(void)
{
    spend(STEP_NS);
    bottom_ns += STEP_NS;
    NO_TAIL_CALL();
}

NOIPA void plunge(unsigned depth)
{
    if (depth > 1)
        plunge(depth - 1);
    else
        bottom();
    NO_TAIL_CALL();
}

NOIPA void stem(unsigned depth)
{
    if (depth % 8 == 0)
        spend(STEP_NS);
    if (depth > 1) {
        stem(depth - 1);
    } else {
        for (unsigned i = 0; i < ROUNDS; i++) {
            near();
            plunge(PLUNGES);
        }
    }
    NO_TAIL_CALL();
}

int main(void)
{
    stem(STEMS);
    printf("near %llu\nbottom %llu\n", (unsigned long long)near_ns, (unsigned long long)bottom_ns);
    return 0;
}
