// SPDX-License-Identifier: MIT
// The threads that are alive and known, so that a recording can begin when they run already.

#include "agent/thread.h"
#include <pthread.h>

// Taken in normal context alone, never by a handler.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *newest;

__thread struct thread *thread_self;

bool thread_list_add(struct thread *thread)
{
    pthread_mutex_lock(&lock);
    thread->older = newest;
    thread->newer = NULL;
    if (newest)
        newest->newer = thread;
    newest = thread;
    // Under the lock: either a start of the recording finds the thread, or the thread finds it.
    const bool active = agent.active;
    pthread_mutex_unlock(&lock);
    return active;
}

void thread_list_remove(struct thread *thread)
{
    pthread_mutex_lock(&lock);
    if (thread->older)
        thread->older->newer = thread->newer;
    if (thread->newer)
        thread->newer->older = thread->older;
    else if (newest == thread)
        newest = thread->older;
    thread->older = thread->newer = NULL;
    pthread_mutex_unlock(&lock);
}

void thread_list_begin_all(void)
{
    pthread_mutex_lock(&lock);
    agent.active = true;
    for (struct thread *thread = newest; thread; thread = thread->older)
        thread_begin_late(thread);
    pthread_mutex_unlock(&lock);
}

void thread_list_stop_clocks(void)
{
    pthread_mutex_lock(&lock);
    for (struct thread *thread = newest; thread; thread = thread->older)
        if (thread != thread_self)
            clock_take_away(&thread->clock);
    pthread_mutex_unlock(&lock);
}

void thread_list_wake_all(void)
{
    pthread_mutex_lock(&lock);
    for (struct thread *thread = newest; thread; thread = thread->older)
        thread_wake(thread);
    pthread_mutex_unlock(&lock);
}

void thread_list_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    newest = thread_self;
    if (newest)
        newest->older = newest->newer = NULL;
}
