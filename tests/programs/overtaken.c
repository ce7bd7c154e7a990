// SPDX-License-Identifier: MIT
// A thread waits deep in a recursion, while another one runs the same function: what becomes known
// of that meanwhile is new to the frames that are there already.

#include "common.h"
#include <pthread.h>
#include <stdbool.h>

static volatile bool is_deep, goes_on;
static volatile uint64_t sink;

static void wait_for(const volatile bool *condition)
{
    while (!*condition)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void wait_at_the_bottom(void)
{
    is_deep = true;
    wait_for(&goes_on);
}

// While it works it makes no call that would be followed: only samples tell of it.
NOIPA unsigned dive(unsigned depth, void (*at_the_bottom)(void))
{
    unsigned sum = 1;
    if (depth > 0) {
        sum += dive(depth - 1, at_the_bottom);
        NO_TAIL_CALL();
        return sum;
    }
    if (at_the_bottom)
        at_the_bottom();
    for (unsigned i = 0; i < 1000; i++) {
        sink += burn(i, 20);
        if (i == 500)
            goes_on = true;
    }
    return sum;
}

static void *diver(void *result)
{
    *(unsigned *)result = dive(12, wait_at_the_bottom);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned depth;
    CHECK(pthread_create(&thread, NULL, diver, &depth) == 0);
    wait_for(&is_deep);
    const unsigned other = dive(3, NULL);
    pthread_join(thread, NULL);
    printf("%u %u\n", other, depth);
    return 0;
}
