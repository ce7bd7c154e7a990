// SPDX-License-Identifier: MIT
// Has the processor trap what is not aligned, as programs do for a moment to find out what it can:
// the handlers of signals find it so.

#include "common.h"

#define ALIGNMENT_CHECK (UINT64_C(1) << 18)

static volatile uint64_t sink;

NOIPA void work(void)
{
    for (unsigned i = 0; i < 1000; i++)
        sink += burn(i, 20);
    NO_TAIL_CALL();
}

int main(void)
{
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | ALIGNMENT_CHECK);
    work();
    const uint64_t flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(flags & ~ALIGNMENT_CHECK);
    CHECK(flags & ALIGNMENT_CHECK);
    printf("aligned\n");
    return 0;
}
