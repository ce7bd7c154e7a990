// SPDX-License-Identifier: MIT
// Threads that are many, short, small, detached, or ended in the middle of something.

#include "common.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <unistd.h>

static _Atomic long total;
static sem_t done;

NOIPA long thread_leaf(long value)
{
    volatile uint64_t sink = burn((uint64_t)value, 20);
    (void)sink;
    NO_TAIL_CALL();
    return value;
}

NOIPA long thread_descend(int depth, long value)
{
    long result = depth ? thread_descend(depth - 1, value) : thread_leaf(value);
    NO_TAIL_CALL();
    return result + 1;
}

NOIPA void *short_thread(void *argument)
{
    total += thread_descend(4, (long)(intptr_t)argument);
    return argument;
}

static int run_short(void)
{
    enum { BATCH = 40 };
    for (int i = 0; i < 4000; i += BATCH) {
        pthread_t threads[BATCH];
        for (int j = 0; j < BATCH; j++)
            CHECK(pthread_create(&threads[j], NULL, short_thread, (void *)(intptr_t)(i + j)) == 0);
        for (int j = 0; j < BATCH; j++) {
            void *result;
            CHECK(pthread_join(threads[j], &result) == 0);
            CHECK(result == (void *)(intptr_t)(i + j));
        }
    }
    printf("short %ld\n", total);
    return 0;
}

NOIPA void *detached_thread(void *argument)
{
    total += thread_descend(4, (long)(intptr_t)argument);
    sem_post(&done);
    return NULL;
}

static int run_detached(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sem_init(&done, 0, 0);
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, detached_thread, (void *)(intptr_t)i) == 0);
        if (i % 16 == 15)
            for (int j = 0; j < 16; j++)
                sem_wait(&done);
    }
    for (int j = 0; j < 1000 % 16; j++)
        sem_wait(&done);
    printf("detached %ld\n", total);
    return 0;
}

NOIPA void *small_thread(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 200; i++)
        sum += thread_descend(10, (long)(intptr_t)argument + i);
    total += sum;
    return NULL;
}

// The smallest stack that the system allows: 16 KB.
static int run_small(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    pthread_t threads[20];
    for (int i = 0; i < 20; i++)
        CHECK(pthread_create(&threads[i], &attributes, small_thread, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < 20; i++)
        pthread_join(threads[i], NULL);
    printf("small %ld\n", total);
    return 0;
}

static _Atomic int cleaned;
static sem_t at_bottom;

NOIPA void cleanup(void *argument)
{
    thread_leaf((long)(intptr_t)argument);
    cleaned++;
}

NOIPA void cancelled_descend(int depth, int asynchronous)
{
    pthread_cleanup_push(cleanup, (void *)(intptr_t)depth);
    if (depth > 0) {
        cancelled_descend(depth - 1, asynchronous);
    } else {
        sem_post(&at_bottom);
        if (asynchronous)
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (;;) {
            thread_leaf(depth);
            if (!asynchronous)
                pthread_testcancel();
        }
    }
    pthread_cleanup_pop(0);
}

NOIPA void *cancelled_thread(void *argument)
{
    cancelled_descend(8, (int)(intptr_t)argument);
    return NULL;
}

static int run_cancel(void)
{
    sem_init(&at_bottom, 0, 0);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, cancelled_thread, (void *)(intptr_t)(i % 2)) == 0);
        sem_wait(&at_bottom);
        usleep((useconds_t)(2000 + i * 20));
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    printf("cancelled and cleaned %d\n", cleaned);
    return 0;
}

NOIPA void exiting_descend(int depth, long value)
{
    pthread_cleanup_push(cleanup, (void *)(intptr_t)depth);
    thread_leaf(value);
    if (depth > 0)
        exiting_descend(depth - 1, value);
    else
        pthread_exit((void *)(intptr_t)(value + 1));
    pthread_cleanup_pop(0);
}

NOIPA void *exiting_thread(void *argument)
{
    exiting_descend(6, (long)(intptr_t)argument);
    return NULL;
}

static int run_exit(void)
{
    for (int i = 0; i < 400; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, exiting_thread, (void *)(intptr_t)i) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == (void *)(intptr_t)(i + 1));
    }
    printf("exited %d\n", cleaned);
    return 0;
}

NOIPA void *outliving_thread(void *argument)
{
    for (int i = 0; i < 3000; i++)
        thread_descend(4, i);
    printf("outlived main\n");
    return argument;
}

// The main thread ends first; the process goes on until its last thread ends.
static int run_outlive(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, outliving_thread, NULL) == 0);
    thread_descend(10, 1);
    pthread_exit(NULL);
}

NOIPA int c11_thread(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 500; i++)
        sum += thread_descend(4, (long)(intptr_t)argument);
    total += sum;
    return 7;
}

static int run_c11(void)
{
    thrd_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(thrd_create(&threads[i], c11_thread, (void *)(intptr_t)i) == thrd_success);
    for (int i = 0; i < 4; i++) {
        int result;
        CHECK(thrd_join(threads[i], &result) == thrd_success && result == 7);
    }
    printf("c11 %ld\n", total);
    return 0;
}

// Stacks of the program's own: from malloc, and one page only beyond the smallest.
static int run_own_stacks(void)
{
    pthread_t threads[8];
    void *stacks[8];
    for (int i = 0; i < 8; i++) {
        pthread_attr_t attributes;
        size_t bytes = PTHREAD_STACK_MIN + 4096 * (size_t)i;
        pthread_attr_init(&attributes);
        stacks[i] = aligned_alloc(4096, bytes);
        CHECK(pthread_attr_setstack(&attributes, stacks[i], bytes) == 0);
        CHECK(pthread_create(&threads[i], &attributes, small_thread, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        free(stacks[i]);
    }
    printf("own stacks %ld\n", total);
    return 0;
}

NOIPA void *early_thread(void *argument)
{
    sem_wait(&at_bottom);
    thread_descend(4, 1);
    return argument;
}

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static int destroyed;

static void destroy(void *value)
{
    (void)value;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

// Sets a value for every key there is, and ends in one of three ways.
NOIPA void *key_thread(void *argument)
{
    const intptr_t number = (intptr_t)argument;
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++)
        CHECK(pthread_setspecific(keys[i], (void *)(number + i + 1)) == 0);
    for (int i = 0; i < 40; i++)
        thread_descend(4, (long)number);
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++)
        CHECK(pthread_getspecific(keys[i]) == (void *)(number + i + 1));
    if (number % 3 == 1)
        pthread_exit((void *)(number + 1));
    if (number % 3 == 2)
        pthread_cancel(pthread_self());
    pthread_testcancel();
    return (void *)(number + 1);
}

NOIPA int key_c11_thread(void *argument)
{
    return (int)(intptr_t)key_thread(argument);
}

// Takes all keys for thread-specific data that POSIX promises, while a thread is alive.
static int run_keys(void)
{
    pthread_t early;
    sem_init(&at_bottom, 0, 0);
    CHECK(pthread_create(&early, NULL, early_thread, NULL) == 0);
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++)
        CHECK(pthread_key_create(&keys[i], destroy) == 0);
    pthread_key_t one_more;
    CHECK(pthread_key_create(&one_more, destroy) == EAGAIN);
    sem_post(&at_bottom);
    CHECK(pthread_join(early, NULL) == 0);
    for (intptr_t i = 0; i < 60; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, key_thread, (void *)i) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == (i % 3 == 2 ? PTHREAD_CANCELED : (void *)(i + 1)));
    }
    thrd_t thread;
    int result;
    CHECK(thrd_create(&thread, key_c11_thread, NULL) == thrd_success);
    CHECK(thrd_join(thread, &result) == thrd_success && result == 1);
    printf("destroyed %d\n", destroyed);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"short", run_short}, {"detached", run_detached},
                                        {"small", run_small}, {"cancel", run_cancel},
                                        {"exit", run_exit},   {"outlive", run_outlive},
                                        {"c11", run_c11},     {"own-stacks", run_own_stacks},
                                        {"keys", run_keys}};
    return RUN_MODE(modes);
}
