// SPDX-License-Identifier: MIT
// Waits for known reasons, in functions named for them, and says for how long: "FUNCTION NANOSECONDS",
// the time of the day less that on the processor.

#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { TURNS = 8, PAUSE_US = 20000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static int ends[2];

NOIPA void wait_asleep(void)
{
    usleep(PAUSE_US);
    NO_TAIL_CALL();
}

NOIPA void wait_for_lock(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    NO_TAIL_CALL();
}

NOIPA void wait_for_pipe(void)
{
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    NO_TAIL_CALL();
}

NOIPA void wait_for_turn(void)
{
    pthread_barrier_wait(&turn);
    NO_TAIL_CALL();
}

// Others want the processor.
NOIPA void wait_for_processor(void)
{
    const uint64_t end = clock_ns(CLOCK_MONOTONIC) + 100000000;
    while (clock_ns(CLOCK_MONOTONIC) < end)
        burn(1, 1);
    NO_TAIL_CALL();
}

static void measure(void (*function)(void), uint64_t *sum)
{
    const uint64_t start = clock_ns(CLOCK_MONOTONIC), cpu = thread_cpu_ns();
    function();
    *sum += clock_ns(CLOCK_MONOTONIC) - start - (thread_cpu_ns() - cpu);
}

static void *other(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&lock);
        pthread_barrier_wait(&turn);
        usleep(PAUSE_US);
        pthread_mutex_unlock(&lock);
        usleep(PAUSE_US);
        CHECK(write(ends[1], "", 1) == 1);
    }
    pthread_barrier_wait(&turn);
    return unused;
}

static void *crowd(void *spent)
{
    measure(wait_for_processor, spent);
    return NULL;
}

int main(void)
{
    uint64_t asleep = 0, locked = 0, piped = 0, crowded[3] = {0}, none = 0;
    pthread_t thread, threads[3];
    cpu_set_t one;
    pthread_barrier_init(&turn, NULL, 2);
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, other, NULL) == 0);
    for (int i = 0; i < TURNS; i++) {
        measure(wait_for_turn, &none);
        measure(wait_for_lock, &locked);
        measure(wait_for_pipe, &piped);
        measure(wait_asleep, &asleep);
    }
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
    CHECK(sched_getaffinity(0, sizeof one, &one) == 0);
    for (int i = 0, found = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &one) && found++)
            CPU_CLR(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, crowd, &crowded[i]) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("wait_asleep %llu\nwait_for_lock %llu\nwait_for_pipe %llu\nwait_for_processor %llu\n",
           (unsigned long long)asleep, (unsigned long long)locked, (unsigned long long)piped,
           (unsigned long long)(crowded[0] + crowded[1] + crowded[2]));
    return 0;
}
