// SPDX-License-Identifier: MIT
// A program that has taken all addresses around libc, and asks it for the time: whoever would
// rewrite that call finds no room for more code nearby. Some managed languages are like this.

#include "common.h"
#include <sys/mman.h>
#include <time.h>

#define STEP (UINT64_C(1) << 20)
#define REACH (UINT64_C(1) << 31)

static NOIPA void crowd(uintptr_t around)
{
    const uintptr_t first = (around & -STEP) - REACH;
    for (uintptr_t at = first; at < around + REACH; at += STEP)
        mmap((void *)at, STEP, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

static NOIPA int64_t ask(int times)
{
    struct timespec before = {0}, now;
    int64_t backwards = 0;
    while (times-- > 0) {
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        backwards += now.tv_sec < before.tv_sec;
        before = now;
        burn((uint64_t)times, 1);
    }
    return backwards;
}

int main(void)
{
    crowd((uintptr_t)clock_gettime);
    printf("%ld times backwards\n", (long)ask(30000));
    return 0;
}
