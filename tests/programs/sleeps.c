// SPDX-License-Identifier: MIT
// Waits and computes in known functions, and says how long each took: "FUNCTION NANOSECONDS".

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

static uint64_t took(void (*function)(void))
{
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    function();
    return clock_ns(CLOCK_MONOTONIC) - start;
}

static void *idle(void *spent)
{
    *(uint64_t *)spent = took(sleep_long);
    return NULL;
}

int main(void)
{
    uint64_t in_short = 0, in_long = 0, in_busy = 0, in_thread;
    for (int i = 0; i < 12; i++) {
        in_short += took(sleep_short);
        in_long += took(sleep_long);
        in_busy += took(busy);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, idle, &in_thread) == 0);
    pthread_join(thread, NULL);
    printf("main;sleep_short %llu\nmain;sleep_long %llu\nmain;busy %llu\nidle;sleep_long %llu\n",
           (unsigned long long)in_short, (unsigned long long)in_long, (unsigned long long)in_busy,
           (unsigned long long)in_thread);
    return 0;
}
