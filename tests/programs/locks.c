// SPDX-License-Identifier: MIT
// Locks of which each wait is known.
//
//   locks counts     takes each kind of lock, without a wait; prints how many were taken, and syncs
//   locks blame      one thread waits for another one that holds a lock, in two places; prints for
//                    how long it has waited, by its own clock, in each
//   locks sync       one thread waits for a condition, a semaphore, an end; prints the same
//   locks crowd      eight threads take one lock; prints how often
//   locks harmless   errors, cancellation, interruptions: says "harmless"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "wrong: %s (errno %d)\n", what, errno);
    _exit(1);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static mtx_t c11;

static __attribute__((noinline)) void take_mutexes(void)
{
    const struct timespec real = in_ms(CLOCK_REALTIME, 10000),
                          monotonic = in_ms(CLOCK_MONOTONIC, 10000);
    for (int i = 0; i < 100; i++) {
        check(!pthread_mutex_lock(&mutex) && !pthread_mutex_unlock(&mutex), "lock");
        check(!pthread_mutex_trylock(&mutex) && !pthread_mutex_unlock(&mutex), "trylock");
        check(!pthread_mutex_timedlock(&mutex, &real) && !pthread_mutex_unlock(&mutex), "timed");
        check(!pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic) &&
                  !pthread_mutex_unlock(&mutex),
              "clocklock");
        check(mtx_lock(&c11) == thrd_success && mtx_unlock(&c11) == thrd_success, "mtx_lock");
    }
}

static __attribute__((noinline)) void take_rwlocks(void)
{
    const struct timespec real = in_ms(CLOCK_REALTIME, 10000);
    for (int i = 0; i < 100; i++) {
        check(!pthread_rwlock_rdlock(&rwlock) && !pthread_rwlock_tryrdlock(&rwlock) &&
                  !pthread_rwlock_timedrdlock(&rwlock, &real),
              "rdlock");
        for (int k = 0; k < 3; k++)
            pthread_rwlock_unlock(&rwlock);
        check(!pthread_rwlock_wrlock(&rwlock) && !pthread_rwlock_unlock(&rwlock), "wrlock");
        check(!pthread_rwlock_trywrlock(&rwlock) && !pthread_rwlock_unlock(&rwlock), "trywrlock");
    }
}

static __attribute__((noinline)) void take_semaphores(void)
{
    for (int i = 0; i < 100; i++)
        check(!sem_post(&semaphore) && !sem_wait(&semaphore), "sem_wait");
}

static void counts(void)
{
    take_mutexes();
    take_rwlocks();
    take_semaphores();
    printf("%d %d\n", 500 + 500, 100);
}

// ---- one thread holds, the other one waits

static atomic_int held, wanted;

static void hold_for(long ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};
    while (!atomic_exchange(&wanted, 0)) // the other one is ready
        sched_yield();
    pthread_mutex_lock(&mutex);
    atomic_store(&held, 1);
    nanosleep(&time, NULL);
    pthread_mutex_unlock(&mutex);
}

static __attribute__((noinline)) void hold_long(void)
{
    hold_for(30);
    __asm__ volatile("# long");
}

static __attribute__((noinline)) void hold_short(void)
{
    hold_for(10);
    __asm__ volatile("# short"); // else the compiler may take both waits for one function
}

#define TURNS 20

static void *hold_in_turns(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        hold_long();
        hold_short();
    }
    return unused;
}

static uint64_t wait_for_it(void)
{
    atomic_store(&wanted, 1);
    while (!atomic_exchange(&held, 0))
        sched_yield();
    const uint64_t begin = now();
    pthread_mutex_lock(&mutex);
    const uint64_t waited = now() - begin;
    pthread_mutex_unlock(&mutex);
    return waited;
}

static __attribute__((noinline)) uint64_t wait_for_long(void)
{
    const uint64_t waited = wait_for_it();
    __asm__ volatile("# long");
    return waited;
}

static __attribute__((noinline)) uint64_t wait_for_short(void)
{
    const uint64_t waited = wait_for_it();
    __asm__ volatile("# short");
    return waited;
}

static void blame(void)
{
    pthread_t holder;
    uint64_t of_long = 0, of_short = 0;
    pthread_create(&holder, NULL, hold_in_turns, NULL);
    for (int i = 0; i < TURNS; i++) {
        of_long += wait_for_long();
        of_short += wait_for_short();
    }
    pthread_join(holder, NULL);
    printf("%lu %lu\n", (unsigned long)of_long, (unsigned long)of_short);
}

// ---- waits for other threads

static int ready;

static void *make_ready(void *unused)
{
    usleep(40000);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    usleep(40000);
    sem_post(&semaphore);
    usleep(40000);
    return unused;
}

static __attribute__((noinline)) uint64_t wait_for_condition(void)
{
    pthread_mutex_lock(&mutex);
    const uint64_t begin = now();
    while (!ready)
        pthread_cond_wait(&condition, &mutex);
    const uint64_t waited = now() - begin;
    pthread_mutex_unlock(&mutex);
    return waited;
}

static __attribute__((noinline)) uint64_t wait_for_semaphore(void)
{
    const uint64_t begin = now();
    sem_wait(&semaphore);
    return now() - begin;
}

static __attribute__((noinline)) uint64_t wait_for_end(pthread_t thread)
{
    const uint64_t begin = now();
    pthread_join(thread, NULL);
    return now() - begin;
}

static void sync_threads(void)
{
    pthread_t other;
    pthread_create(&other, NULL, make_ready, NULL);
    const uint64_t first = wait_for_condition(), second = wait_for_semaphore(),
                   third = wait_for_end(other);
    printf("%lu %lu %lu\n", (unsigned long)first, (unsigned long)second, (unsigned long)third);
}

// ---- many

#define CROWD 8
#define EACH 20000
static unsigned long sum;

static inline void add_once(void)
{
    pthread_mutex_lock(&mutex);
    sum++;
    pthread_mutex_unlock(&mutex);
}

static void *add(void *unused)
{
    for (int i = 0; i < EACH; i++)
        add_once();
    return unused;
}

static void crowd(void)
{
    pthread_t threads[CROWD];
    add_once(); // somebody has held it before anybody waits
    for (int i = 0; i < CROWD; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    printf("%lu\n", sum);
}

// ---- nothing is different

static void errors(void)
{
    pthread_mutexattr_t kind;
    pthread_mutex_t checked, recursive;
    const struct timespec wrong = {.tv_nsec = -1}, soon = in_ms(CLOCK_REALTIME, 5);
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &kind);
    check(!pthread_mutex_lock(&checked) && pthread_mutex_lock(&checked) == EDEADLK, "deadlock");
    check(pthread_mutex_trylock(&checked) == EBUSY, "busy");
    check(pthread_mutex_timedlock(&checked, &soon) == EDEADLK, "timed deadlock");
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    check(!pthread_mutex_lock(&recursive) && !pthread_mutex_lock(&recursive) &&
              !pthread_mutex_unlock(&recursive) && !pthread_mutex_unlock(&recursive) &&
              pthread_mutex_unlock(&recursive) == EPERM,
          "recursive");
    check(pthread_rwlock_timedrdlock(&rwlock, &wrong) == EINVAL, "wrong time of a rwlock");
    check(pthread_rwlock_clockwrlock(&rwlock, CLOCK_PROCESS_CPUTIME_ID, &soon) == EINVAL,
          "wrong clock");
    check(sem_timedwait(&semaphore, &wrong) == -1 && errno == EINVAL, "wrong time");
    check(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT, "time is out");
    check(!pthread_rwlock_wrlock(&rwlock) && pthread_rwlock_wrlock(&rwlock) == EDEADLK &&
              !pthread_rwlock_unlock(&rwlock),
          "deadlock of a rwlock");
    errno = 77;
    check(!pthread_mutex_lock(&mutex) && !pthread_mutex_unlock(&mutex) && errno == 77, "errno");
    check(!sem_post(&semaphore) && !sem_wait(&semaphore) && errno == 77, "errno of a semaphore");
}

static pthread_mutex_t robust;

static void *die_with_it(void *unused)
{
    pthread_mutex_lock(&robust);
    return unused;
}

static void robust_locks(void)
{
    pthread_mutexattr_t kind;
    pthread_t thread;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    pthread_create(&thread, NULL, die_with_it, NULL);
    pthread_join(thread, NULL);
    check(pthread_mutex_lock(&robust) == EOWNERDEAD, "owner is dead");
    check(!pthread_mutex_consistent(&robust) && !pthread_mutex_unlock(&robust), "consistent");
}

static atomic_int cleaned;

static void clean(void *unlocks)
{
    if (unlocks)
        pthread_mutex_unlock(&mutex);
    cleaned++;
}

static void *wait_on_condition(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(clean, &mutex);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *wait_on_semaphore(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    for (;;)
        sem_wait(&semaphore);
    pthread_cleanup_pop(0);
    return unused;
}

// A cancelled thread does not take a semaphore that is free.
static void *find_it_cancelled(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    pthread_cancel(pthread_self());
    sem_wait(&semaphore);
    pthread_cleanup_pop(0);
    return unused;
}

static void cancel(void *(*run)(void *))
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    usleep(10000);
    pthread_cancel(thread);
    check(!pthread_join(thread, &result) && result == PTHREAD_CANCELED, "cancelled");
}

static void cancellation(void)
{
    int value;
    cancel(wait_on_condition);
    cancel(wait_on_semaphore);
    sem_post(&semaphore);
    cancel(find_it_cancelled);
    check(!sem_getvalue(&semaphore, &value) && value == 1, "it is still free");
    check(cleaned == 3, "cleaned up");
    check(!pthread_mutex_trylock(&mutex) && !pthread_mutex_unlock(&mutex), "given back");
    sem_wait(&semaphore);
}

static void nothing(int signal)
{
    (void)signal;
}

static void interruptions(void)
{
    const struct sigaction action = {.sa_handler = nothing};
    const struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    check(sem_wait(&semaphore) == -1 && errno == EINTR, "interrupted");
}

static void harmless(void)
{
    errors();
    robust_locks();
    cancellation();
    interruptions();
    puts("harmless");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"counts", counts},
                 {"blame", blame},
                 {"sync", sync_threads},
                 {"crowd", crowd},
                 {"harmless", harmless}};
    sem_init(&semaphore, 0, 0);
    mtx_init(&c11, mtx_plain);
    for (unsigned i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run();
            return 0;
        }
    return 2;
}
