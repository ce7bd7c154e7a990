// SPDX-License-Identifier: MIT
// Frames that end in each way there is, each as often, and long enough to be sampled every time.

#include "common.h"
#include <csetjmp>

enum { ROUNDS = 20, CPU_NS = 3000000 };

static jmp_buf target;
static void *direct_target[5];
static volatile uint64_t sink;

NOIPA void work()
{
    const uint64_t end = thread_cpu_ns() + CPU_NS;
    while (thread_cpu_ns() < end)
        sink += burn(end, 20);
}

NOIPA void by_return()
{
    work();
    NO_TAIL_CALL();
}

NOIPA void inner_by_jump()
{
    work();
    longjmp(target, 1);
}

NOIPA void outer_by_jump()
{
    inner_by_jump();
    NO_TAIL_CALL();
}

NOIPA void by_direct_jump()
{
    work();
    __builtin_longjmp(direct_target, 1);
}

NOIPA void inner_by_exception()
{
    work();
    throw 1;
}

NOIPA void outer_by_exception()
{
    inner_by_exception();
    NO_TAIL_CALL();
}

// A frame that is jumped into must not keep anything in registers.
NOIPA void land_from_jump()
{
    if (setjmp(target) == 0)
        outer_by_jump();
    work();
}

NOIPA void land_from_direct_jump()
{
    if (__builtin_setjmp(direct_target) == 0)
        by_direct_jump();
    work();
}

NOIPA void land_from_exception()
{
    try {
        outer_by_exception();
    } catch (int) {
        sink = 0;
    }
    work();
}

int main()
{
    for (int i = 0; i < ROUNDS; i++) {
        by_return();
        land_from_jump();
        land_from_direct_jump();
        land_from_exception();
    }
    return 0;
}
