// SPDX-License-Identifier: MIT
// Runs until SIGTERM: a thread that computes, three times as long in one function as in another,
// and threads that wait in calls which nothing may interrupt. Prints what went wrong.

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ended;
static _Atomic unsigned wrong;
static volatile unsigned sink;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

__attribute__((noinline)) static unsigned work(unsigned rounds)
{
    unsigned x = sink;
    for (unsigned i = 0; i < rounds * 1000; i++)
        x = x * 1103515245 + 12345;
    sink = x;
    return x;
}

__attribute__((noinline)) static unsigned long_one(void)
{
    return work(30) + 1;
}

__attribute__((noinline)) static unsigned short_one(void)
{
    return work(10) + 1;
}

__attribute__((noinline)) static void compute(void)
{
    sink += long_one();
    sink += short_one();
}

__attribute__((noinline)) static unsigned deep(unsigned levels)
{
    return levels ? deep(levels - 1) + 1 : work(2);
}

static void *compute_deeply(void *unused)
{
    (void)unused;
    while (!ended)
        if (deep(100) < 100)
            sink++;
    return NULL;
}

static void check(int failed)
{
    if (failed && !ended)
        wrong++;
}

static void *sleep_a_while(void *unused)
{
    (void)unused;
    while (!ended)
        check(nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL));
    return NULL;
}

static void *poll_nothing(void *unused)
{
    (void)unused;
    while (!ended)
        check(poll(NULL, 0, 40) != 0);
    return NULL;
}

static void *wait_for_events(void *unused)
{
    (void)unused;
    struct epoll_event event;
    const int file = epoll_create1(0);
    while (!ended)
        check(epoll_wait(file, &event, 1, 50) != 0);
    close(file);
    return NULL;
}

static void *wait_for_semaphore(void *unused)
{
    (void)unused;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    while (!ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        check(!sem_timedwait(&semaphore, &until) || errno != ETIMEDOUT);
    }
    return NULL;
}

static sem_t never; // until the end

static void *wait_for_the_end(void *unused)
{
    check(sem_wait(&never));
    return unused;
}

// A child each time: it computes, or becomes another program.
static void *have_children(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !ended; i++) {
        const pid_t child = fork();
        if (!child && i % 2) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        } else if (!child) {
            work(100);
            _exit(0);
        }
        int status = 0;
        check(child < 0 || waitpid(child, &status, 0) != child || status);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return NULL;
}

static void *return_soon(void *unused)
{
    work(20);
    return unused;
}

// Threads that come and go.
static void *have_threads(void *unused)
{
    while (!ended) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, return_soon, NULL) || pthread_join(thread, NULL));
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return unused;
}

int main(int argc, char **argv)
{
    static void *(*const all[])(void *) = {compute_deeply,  sleep_a_while,      poll_nothing,
                                           wait_for_events, wait_for_semaphore, have_threads,
                                           have_children,   wait_for_the_end};
    const size_t count = argc > 1 && !strcmp(argv[1], "alone") ? 0 : sizeof all / sizeof *all;
    pthread_t threads[sizeof all / sizeof *all];
    sigset_t set;
    sem_init(&never, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, all[i], NULL))
            return 2;
    signal(SIGTERM, end);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    puts("ready");
    fflush(stdout);
    while (!ended)
        compute();
    sem_post(&never);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%u wrong\n", wrong);
    return wrong != 0;
}
