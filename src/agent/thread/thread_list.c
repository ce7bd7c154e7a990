// SPDX-License-Identifier: MIT
// The threads that are alive and known, so that a recording can begin when they run already.

#include "agent/thread/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Taken in normal context alone, never by a handler.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *newest;

__thread struct thread *thread_self;

// False: a thread of another process has it, from which this one was made without the agent's
// knowledge.
static bool enter(void)
{
    return !pthread_mutex_trylock(&lock) || (!agent_in_vfork_child() && !pthread_mutex_lock(&lock));
}

// Names of threads that have not begun: their creator may name them at once. The oldest goes when
// there are more.
#define EARLY_NAMES 16

static struct early_name {
    pthread_t handle;
    char name[THREAD_NAME_BYTES]; // empty: not in use
} early_names[EARLY_NAMES];
static unsigned early_count; // that there ever were

static void take_early_name(struct thread *thread)
{
    for (unsigned i = 0; i < EARLY_NAMES && i < early_count; i++)
        if (early_names[i].name[0] && pthread_equal(early_names[i].handle, thread->handle)) {
            thread_set_name(thread, early_names[i].name);
            early_names[i].name[0] = 0;
        }
}

void thread_list_set_name(pthread_t handle, const char *name)
{
    if (!enter())
        return;
    struct thread *thread = newest;
    while (thread && !pthread_equal(thread->handle, handle))
        thread = thread->older;
    if (thread) {
        thread_set_name(thread, name);
    } else {
        struct early_name *early = &early_names[early_count++ % EARLY_NAMES];
        early->handle = handle;
        strncpy(early->name, name, sizeof early->name - 1);
    }
    pthread_mutex_unlock(&lock);
}

bool thread_list_add(struct thread *thread)
{
    if (!enter())
        return false;
    thread->older = newest;
    thread->newer = NULL;
    if (newest)
        newest->newer = thread;
    newest = thread;
    take_early_name(thread);
    // Under the lock: either a start of the recording finds the thread, or the thread finds it.
    const bool active = agent.active;
    pthread_mutex_unlock(&lock);
    return active;
}

void thread_list_remove(struct thread *thread)
{
    if (!enter())
        return;
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
    agent.active = true;
    if (!enter())
        return;
    for (struct thread *thread = newest; thread; thread = thread->older)
        thread_begin_late(thread);
    pthread_mutex_unlock(&lock);
}

// The set of signals on a line of /proc/self/task/ID/status.
static uint64_t signals_of(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? strtoull(line + strlen(name), NULL, 16) : 0;
}

// In a handler of ours, or about to be: that blocks our signals, which the program never does, and
// until the kernel has taken it back to where it was.
static bool may_be_in_handler(const struct thread *thread)
{
    const uint64_t ours = UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (CLOCK_SIGNAL - 1);
    char path[64], status[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread->id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false; // it is gone, or that is not known
    const ssize_t bytes = read(file, status, sizeof status - 1);
    close(file);
    status[bytes > 0 ? bytes : 0] = 0;
    return (signals_of(status, "SigBlk:") | signals_of(status, "SigPnd:")) & ours;
}

#define ANSWER_MOST_MS 2000 // the longest wait for a thread

static void nap(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    syscall(SYS_nanosleep, &moment, NULL);
}

// A tick that was due when its clock went may still be pending, unseen, if the thread has not run
// since. A tick by hand comes behind it.
static void wait_for_ticks(struct thread *thread)
{
    const uint32_t before = atomic_load_explicit(&thread->last_ticks, memory_order_relaxed);
    unsigned naps = 0;
    if (!atomic_load_explicit(&thread->begun, memory_order_relaxed) ||
        clock_send_last_tick(agent.pid, thread->id))
        return;
    while (naps++ < ANSWER_MOST_MS &&
           atomic_load_explicit(&thread->last_ticks, memory_order_relaxed) == before)
        nap();
    while (naps++ < ANSWER_MOST_MS && may_be_in_handler(thread))
        nap();
}

void thread_list_stop_clocks(void)
{
    if (!enter())
        return;
    for (struct thread *thread = newest; thread; thread = thread->older)
        if (thread != thread_self) {
            clock_take_away(&thread->clock);
            counters_take_away(&thread->counters);
        }
    for (struct thread *thread = newest; thread; thread = thread->older)
        if (thread != thread_self)
            wait_for_ticks(thread);
    pthread_mutex_unlock(&lock);
}

struct thread *thread_list_find(pid_t id)
{
    if (!enter())
        return NULL;
    struct thread *thread = newest;
    while (thread && thread->id != id)
        thread = thread->older;
    pthread_mutex_unlock(&lock);
    return thread;
}

void thread_list_each(void (*visit)(struct thread *thread))
{
    if (!enter())
        return;
    for (struct thread *thread = newest; thread; thread = thread->older)
        visit(thread);
    pthread_mutex_unlock(&lock);
}

static bool is_dead(const struct thread *thread)
{
    return syscall(SYS_tgkill, agent.pid, thread->id, 0) && errno == ESRCH;
}

void thread_list_forget_dead(void)
{
    struct thread *thread = newest;
    while (thread) {
        struct thread *const next = thread->older;
        if (is_dead(thread)) {
            thread_list_remove(thread);
            thread_give(thread);
        }
        thread = next;
    }
}

void thread_list_wake_all(void)
{
    if (!enter())
        return;
    for (struct thread *thread = newest; thread; thread = thread->older)
        thread_wake(thread);
    pthread_mutex_unlock(&lock);
}

void thread_list_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store(&agent.visitors, 0); // those do not exist here
    early_count = 0;
    newest = thread_self;
    if (newest)
        newest->older = newest->newer = NULL;
}
