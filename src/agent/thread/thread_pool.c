// SPDX-License-Identifier: MIT
// Records of threads, for use again and again.

#include "agent/thread/thread.h"
#include "base/agent_map.h"
#include "base/lock.h"

#define POOL_BYTES 65536

// Unused thread records. The lock is only ever held for a few instructions, in normal context.
static struct thread *pool;
static struct thread *untouched; // that were never used
static size_t untouched_count;
static struct lock pool_lock;

static struct thread *fill_pool(void)
{
    struct thread *fresh = agent_map_map(POOL_BYTES);
    if (!fresh)
        return NULL;
    atomic_fetch_add_explicit(&agent.process->agent_bytes, POOL_BYTES, memory_order_relaxed);
    // Most programs have few threads: each record is touched when it is used.
    untouched = fresh + 1;
    untouched_count = POOL_BYTES / sizeof *fresh - 1;
    return fresh;
}

struct thread *thread_take(void)
{
    if (lock_take(&pool_lock))
        return NULL;
    struct thread *thread = pool;
    if (thread)
        pool = thread->next;
    else if (untouched_count && untouched_count--)
        thread = untouched++;
    else
        thread = fill_pool();
    lock_release(&pool_lock);
    if (thread)
        *thread = (struct thread){.signal_stack = thread->signal_stack};
    return thread;
}

void thread_give(struct thread *thread)
{
    if (lock_take(&pool_lock))
        return; // and never use it again
    thread->next = pool;
    pool = thread;
    lock_release(&pool_lock);
}

void thread_pool_after_fork(void)
{
    lock_break(&pool_lock);
}
