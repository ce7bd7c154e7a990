// SPDX-License-Identifier: MIT
// Threads that have names: numbered ones of a pool, some of their own, some that their maker names,
// some of none, all with the same start routine.

#include "common.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNITS 40000 // microseconds of the thread's own time, however slow the processor is

static volatile uint64_t sink;
static unsigned units = UNITS; // of a thread's work

static NOIPA void work(unsigned units)
{
    const uint64_t end = thread_cpu_ns() + units * UINT64_C(1000);
    while (thread_cpu_ns() < end)
        sink += burn(sink, 50);
}

// Named as runtimes do it: C++ and Java by the first, Rust by the second, others by a system call.
static void name_myself(const char *name)
{
    static unsigned turn;
    switch (__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 3) {
    case 0:
        CHECK(pthread_setname_np(pthread_self(), name) == 0);
        break;
    case 1:
        CHECK(prctl(PR_SET_NAME, name, 0, 0, 0) == 0);
        break;
    default:
        CHECK(syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0) == 0);
    }
    char told[16];
    CHECK(pthread_getname_np(pthread_self(), told, sizeof told) == 0 && !strcmp(told, name));
}

static void *start(void *argument)
{
    if (argument)
        name_myself(argument);
    work(units);
    return NULL;
}

static int run_pool(void)
{
    static char names[4][16] = {"worker-1", "worker-2", "worker-10", "loader"};
    pthread_t threads[6];
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, start, names[i]) == 0);
    // Right after it was made: it may not have begun yet.
    CHECK(pthread_create(&threads[4], NULL, start, NULL) == 0);
    CHECK(pthread_setname_np(threads[4], "from-outside") == 0);
    CHECK(pthread_create(&threads[5], NULL, start, NULL) == 0); // without a name
    work(UNITS);
    for (unsigned i = 0; i < 6; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}

// One after the other: each takes the tree of an earlier one.
static int run_turns(void)
{
    for (unsigned i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s-%u", i % 3 == 1 ? "beta" : "alpha", i);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, start, i % 3 == 2 ? NULL : name) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}

// Each another name: there may be no tree for each.
static int run_unique(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    units = 400;
    for (unsigned i = 0; i < 2000; i++) {
        char name[16];
        snprintf(name, sizeof name, "job %c%c%c", letters[i % 26], letters[i / 26 % 26],
                 letters[i / 676]);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, start, name) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}

// What it does under one name, and what under another; and the main thread has one, too.
static void *start_changing(void *argument)
{
    (void)argument;
    name_myself("first");
    work(UNITS);
    name_myself("second");
    work(UNITS);
    return NULL;
}

static int run_changing(void)
{
    pthread_t thread;
    CHECK(prctl(PR_SET_NAME, "conductor", 0, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, start_changing, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    work(UNITS);
    return 0;
}

static const struct mode modes[] = {
    {"pool", run_pool}, {"turns", run_turns}, {"unique", run_unique}, {"changing", run_changing}};

int main(int argc, char **argv)
{
    return RUN_MODE(modes);
}
