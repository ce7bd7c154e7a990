// SPDX-License-Identifier: MIT
// No file can be opened any more while the program calls functions through a pointer that it has
// not called before, with vfork() in between.

#include "common.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t (*step)(uint64_t value, unsigned depth);
static step steps[];

// The one call of all of them.
static NOIPA uint64_t go_on(uint64_t value, unsigned depth)
{
    uint64_t result = steps[value % 16](value, depth);
    NO_TAIL_CALL();
    return result;
}

static void make_child(void)
{
    const pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
}

static inline __attribute__((always_inline)) uint64_t take_step(uint64_t value, unsigned depth,
                                                                unsigned number)
{
    uint64_t sum = burn(value + number, 4) % 1000003;
    if (depth > 0)
        sum += go_on((value + number) / 2 * 2 + 1, depth - 1);
    else if (sum % 64 == 0)
        make_child();
    return sum + number;
}

#define STEP(n)                                                                                    \
    static NOIPA uint64_t step_##n(uint64_t value, unsigned depth)                                 \
    {                                                                                              \
        return take_step(value, depth, n);                                                         \
    }
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)
STEP(8)
STEP(9)
STEP(10)
STEP(11)
STEP(12)
STEP(13)
STEP(14)
STEP(15)

static step steps[] = {step_0, step_1, step_2,  step_3,  step_4,  step_5,  step_6,  step_7,
                       step_8, step_9, step_10, step_11, step_12, step_13, step_14, step_15};

static NOIPA uint64_t run(uint64_t begin, uint64_t end, uint64_t every)
{
    uint64_t sum = 0;
    for (uint64_t i = begin; i < end; i++)
        sum += go_on(i % every, 6);
    return sum;
}

int main(void)
{
    struct rlimit limit;
    uint64_t sum = run(0, 8000, 3);
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 3;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    sum += run(0, 8000, 1000);
    printf("%lu\n", sum);
    return 0;
}
