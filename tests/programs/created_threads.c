// SPDX-License-Identifier: MIT
// Threads that are created in several ways, on several paths, and by each other.

#include "common.h"
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { WORK = 4000, DEEP = 60 };

static NOIPA void work(unsigned units)
{
    volatile uint64_t sink = burn(units, units);
    (void)sink;
    NO_TAIL_CALL();
}

static NOIPA void *worker(void *argument)
{
    work((unsigned)(uintptr_t)argument);
    NO_TAIL_CALL();
    return NULL;
}

static NOIPA pthread_t create(void *(*start)(void *), uintptr_t argument)
{
    pthread_t thread;
    errno = 4711;
    CHECK(pthread_create(&thread, NULL, start, (void *)argument) == 0);
    CHECK(errno == 4711);
    return thread;
}

static NOIPA void join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
    NO_TAIL_CALL();
}

// The same routine, three parts of the work on one path and one on the other.
static NOIPA void left(void)
{
    join(create(worker, 3 * WORK));
    NO_TAIL_CALL();
}

static NOIPA void right(void)
{
    join(create(worker, WORK));
    NO_TAIL_CALL();
}

static int run_two(void)
{
    left();
    right();
    return 0;
}

static NOIPA void *child(void *argument)
{
    work(WORK);
    join(create(worker, (uintptr_t)argument));
    NO_TAIL_CALL();
    return NULL;
}

static NOIPA void spawn(void)
{
    join(create(child, WORK));
    NO_TAIL_CALL();
}

static int run_nested(void)
{
    work(WORK);
    spawn();
    return 0;
}

// Each creates the next, more of them than paths are kept for.
static NOIPA void *chained(void *argument)
{
    const uintptr_t left_over = (uintptr_t)argument;
    work(WORK / 10);
    if (left_over > 0)
        join(create(chained, left_over - 1));
    NO_TAIL_CALL();
    return NULL;
}

static int run_chain(void)
{
    join(create(chained, DEEP));
    return 0;
}

// From more places than have trees of their own.
static NOIPA void descend(unsigned depth, unsigned threads)
{
    if (depth == 0)
        join(create(worker, WORK / 20));
    else
        descend(depth - 1, threads);
    NO_TAIL_CALL();
}

static int run_many(void)
{
    for (unsigned i = 0; i < 700; i++)
        descend(i % 650, i);
    return 0;
}

static NOIPA int c11_worker(void *argument)
{
    work((unsigned)(uintptr_t)argument);
    NO_TAIL_CALL();
    return 0;
}

static NOIPA void create_c11(void)
{
    thrd_t thread;
    CHECK(thrd_create(&thread, c11_worker, (void *)(uintptr_t)WORK) == thrd_success);
    CHECK(thrd_join(thread, NULL) == thrd_success);
    NO_TAIL_CALL();
}

static int run_c11(void)
{
    create_c11();
    return 0;
}

// A thread that forks: what its child does is still below what created the thread.
static NOIPA void in_child(void)
{
    work(WORK);
    join(create(worker, WORK));
    NO_TAIL_CALL();
}

static NOIPA void *forking(void *argument)
{
    (void)argument;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        in_child();
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    NO_TAIL_CALL();
    return NULL;
}

static NOIPA void fork_in_thread(void)
{
    join(create(forking, 0));
    NO_TAIL_CALL();
}

static int run_fork(void)
{
    fork_in_thread();
    return 0;
}

// Attributes that pthread_create() refuses; and detached threads.
static NOIPA void *detached(void *argument)
{
    work(WORK);
    *(_Atomic int *)argument = 1;
    return NULL;
}

static int run_odd(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)1 << 46) == 0);
    const int expected = pthread_create(&thread, &attributes, worker, NULL);
    CHECK(expected == EAGAIN);
    pthread_attr_destroy(&attributes);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    static _Atomic int done;
    CHECK(pthread_create(&thread, &attributes, detached, &done) == 0);
    while (!done)
        usleep(1000);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"two", run_two}, {"nested", run_nested}, {"chain", run_chain}, {"many", run_many},
        {"c11", run_c11}, {"fork", run_fork},     {"odd", run_odd},
    };
    const int status = RUN_MODE(modes);
    NO_TAIL_CALL();
    return status;
}
