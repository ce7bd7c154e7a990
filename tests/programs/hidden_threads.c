// SPDX-License-Identifier: MIT
// Threads that libc makes by itself, and in which it blocks signals as it likes: a timer's, and
// those of asynchronous input. Prints nothing but how often each was called, once it was.

#include "common.h"
#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define CALLS 20

static _Atomic unsigned timer_calls, aio_calls;

static NOIPA uint64_t one_way(uint64_t value)
{
    return burn(value, 2) + 1;
}

static NOIPA uint64_t other_way(uint64_t value)
{
    return burn(value, 2) + 2;
}

static NOIPA uint64_t work(uint64_t value)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 20; i++)
        sum += i % 3 ? one_way(value + i) : other_way(value + i);
    return sum;
}

static void on_timer(union sigval value)
{
    CHECK(work((uint64_t)value.sival_int) == work((uint64_t)value.sival_int));
    timer_calls++;
}

static void on_read(union sigval value)
{
    CHECK(work((uint64_t)value.sival_int) == work((uint64_t)value.sival_int));
    aio_calls++;
}

int main(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
    const struct itimerspec interval = {{0, 3000000}, {0, 3000000}};
    char buffer[8];
    struct aiocb request = {
        .aio_fildes = open("/dev/zero", O_RDONLY), .aio_buf = buffer, .aio_nbytes = sizeof buffer};
    timer_t timer;
    request.aio_sigevent = event;
    request.aio_sigevent.sigev_notify_function = on_read;
    for (uint64_t i = 0; i < 50; i++)
        CHECK(work(i) == work(i));
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    CHECK(!timer_settime(timer, 0, &interval, NULL));
    for (unsigned i = 0; i < CALLS; i++) {
        CHECK(!aio_read(&request));
        while (aio_calls <= i || timer_calls <= i)
            CHECK(work(i) == work(i));
    }
    printf("called %d times each\n", CALLS);
    fflush(stdout);
    _exit(0);
}
