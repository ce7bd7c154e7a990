// SPDX-License-Identifier: MIT
// Waits and computes in known functions for known times.

#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

NOIPA void sleep_short(void)
{
    usleep(20000);
    NO_TAIL_CALL();
}

NOIPA void sleep_long(void)
{
    poll(NULL, 0, 60);
    NO_TAIL_CALL();
}

NOIPA void busy(void)
{
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + 20000000;
    while (clock_ns(CLOCK_MONOTONIC) < end)
        burn(1, 1);
}

static void *idle(void *unused)
{
    sleep_long();
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 12; i++) {
        sleep_short();
        sleep_long();
        busy();
    }
    CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
    pthread_join(thread, NULL);
    printf("slept\n");
    return 0;
}
