// SPDX-License-Identifier: MIT
// How the end of a thread is noticed: by a key for thread-specific data, whose destructor comes
// after those of the program. There are PTHREAD_KEYS_MAX keys, and the program may want all of
// them: then it gets ours, and threads that begin later end in a frame of ours.

#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <threads.h>

// The thread that clears has_key deletes the key. Relaxed: a thread that finds it set and comes too
// late ends unnoticed, as those do that were alive then.
static pthread_key_t end_key;
static _Atomic bool has_key;

// The destructors of the program come first if ours waits for the last round.
static void on_destruction(void *value)
{
    struct thread *thread = value;
    if (++thread->ending < PTHREAD_DESTRUCTOR_ITERATIONS - 1)
        pthread_setspecific(end_key, thread);
    else
        thread_end(thread);
}

int thread_end_start(void)
{
    const int error = REAL(pthread_key_create)(&end_key, on_destruction);
    atomic_store_explicit(&has_key, !error, memory_order_relaxed);
    return -error;
}

void thread_end_expect(struct thread *thread)
{
    if (thread_end_is_noticed())
        pthread_setspecific(end_key, thread);
}

bool thread_end_is_noticed(void)
{
    return atomic_load_explicit(&has_key, memory_order_relaxed);
}

static bool give_up_key(void)
{
    return atomic_exchange_explicit(&has_key, false, memory_order_relaxed) &&
           pthread_key_delete(end_key) == 0;
}

void thread_end_stop(void)
{
    give_up_key();
}

INTERPOSED int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    const int error = REAL(pthread_key_create)(key, destructor);
    return error == EAGAIN && give_up_key() ? REAL(pthread_key_create)(key, destructor) : error;
}

// The same function, by the name that the runtimes of other languages use.
INTERPOSED int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    return pthread_key_create(key, destructor);
}

INTERPOSED int tss_create(tss_t *key, tss_dtor_t destructor)
{
    const int result = REAL(tss_create)(key, destructor);
    return result != thrd_success && give_up_key() ? REAL(tss_create)(key, destructor) : result;
}

static void end_in_frame(void *unused)
{
    (void)unused;
    if (thread_self)
        thread_end(thread_self);
}

void *thread_end_after(void *(*entry)(void *), void *argument)
{
    void *result;
    pthread_cleanup_push(end_in_frame, NULL); // for pthread_exit() and cancellation, too
    result = entry(argument);
    pthread_cleanup_pop(1);
    return result;
}
