// SPDX-License-Identifier: MIT
// Records of threads, for use again and again.

#include "agent/thread.h"
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES 65536

// Unused thread records. The lock is only ever held for a few instructions, in normal context.
static struct thread *pool;
static atomic_flag pool_lock = ATOMIC_FLAG_INIT;

static struct thread *fill_pool(void)
{
    struct thread *fresh =
        mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    atomic_fetch_add_explicit(&agent.process->agent_bytes, POOL_BYTES, memory_order_relaxed);
    for (size_t i = 1; i < POOL_BYTES / sizeof *fresh; i++) {
        fresh[i].next = pool;
        pool = &fresh[i];
    }
    return fresh;
}

static void lock_pool(void)
{
    while (atomic_flag_test_and_set_explicit(&pool_lock, memory_order_acquire))
        sched_yield();
}

static void unlock_pool(void)
{
    atomic_flag_clear_explicit(&pool_lock, memory_order_release);
}

struct thread *thread_take(void)
{
    lock_pool();
    struct thread *thread = pool;
    if (thread)
        pool = thread->next;
    else
        thread = fill_pool();
    unlock_pool();
    if (thread)
        memset(thread, 0, sizeof *thread);
    return thread;
}

void thread_give(struct thread *thread)
{
    lock_pool();
    thread->next = pool;
    pool = thread;
    unlock_pool();
}

void thread_pool_after_fork(void)
{
    atomic_flag_clear(&pool_lock);
}
