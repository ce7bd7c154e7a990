// SPDX-License-Identifier: MIT
// Two threads that wake each other all the time, on one processor, as those of a server and its
// client do; then one of them computes. The arguments say how many rounds, and how much it
// computes.

#include "common.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile uint64_t sink;
static int there[2], back[2];
static unsigned rounds;

NOIPA void switch_work(unsigned turn, unsigned units)
{
    uint64_t state = turn | 1;
    for (unsigned i = 0; i < units * 1000; i++)
        state = state * 6364136223846793005u + 1442695040888963407u;
    sink += state;
}

// poll() is never restarted after a signal: nobody may see one of the profiler's.
static void wait_for(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char byte;
    CHECK(poll(&ready, 1, 60000) == 1);
    CHECK(read(fd, &byte, 1) == 1);
}

static void wake(int fd)
{
    char byte = 0;
    CHECK(write(fd, &byte, 1) == 1);
}

NOIPA void *answer(void *unused)
{
    for (unsigned i = 0; i < rounds; i++) {
        wait_for(there[0]);
        switch_work(i, 10);
        wake(back[1]);
    }
    return unused;
}

NOIPA void ask(void)
{
    for (unsigned i = 0; i < rounds; i++) {
        switch_work(i, 5);
        wake(there[1]);
        wait_for(back[0]);
    }
}

NOIPA void compute(unsigned units)
{
    switch_work(units, units);
    NO_TAIL_CALL();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    rounds = (unsigned)atoi(argv[1]);
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((unsigned)sched_getcpu(), &here);
    CHECK(sched_setaffinity(0, sizeof here, &here) == 0);
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);
    ask();
    CHECK(pthread_join(thread, NULL) == 0);
    compute((unsigned)atoi(argv[2]));
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    printf("%ld\n", usage.ru_nvcsw + usage.ru_nivcsw);
    return 0;
}
