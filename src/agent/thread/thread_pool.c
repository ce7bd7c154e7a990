// SPDX-License-Identifier: MIT
// Records of threads, for use again and again.

#include "agent/thread/thread.h"
#include "base/lock.h"
#include "base/system/agent_map.h"

#define POOL_BYTES 65536

// Unused thread records. The lock is only ever held for a few instructions, in normal context.
static struct {
    struct thread *given;     // back, for use again
    struct thread *untouched; // that were never used
    size_t untouched_count;
    struct lock lock;
} pool;

static struct thread *fill_pool(void)
{
    struct thread *fresh = agent_map(POOL_BYTES);
    if (!fresh)
        return NULL;
    atomic_fetch_add_explicit(&agent.process->agent_bytes, POOL_BYTES, memory_order_relaxed);
    // Most programs have few threads: each record is touched when it is used.
    pool.untouched = fresh + 1;
    pool.untouched_count = POOL_BYTES / sizeof *fresh - 1;
    return fresh;
}

struct thread *thread_take(void)
{
    if (lock_take(&pool.lock))
        return NULL;
    struct thread *thread = pool.given;
    if (thread)
        pool.given = thread->next;
    else if (pool.untouched_count && pool.untouched_count--)
        thread = pool.untouched++;
    else
        thread = fill_pool();
    lock_release(&pool.lock);
    if (thread)
        *thread = (struct thread){.signal_stack = thread->signal_stack};
    return thread;
}

void thread_give(struct thread *thread)
{
    if (lock_take(&pool.lock))
        return; // and never use it again
    thread->next = pool.given;
    pool.given = thread;
    lock_release(&pool.lock);
}

void thread_pool_after_fork(void)
{
    lock_break(&pool.lock);
}
