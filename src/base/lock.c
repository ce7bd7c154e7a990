// SPDX-License-Identifier: MIT
#include "base/lock.h"
#include "base/now.h"
#include <errno.h>

#define ABANDONED ((uintptr_t)1) // thread pointers are aligned
#define FORKS_SHIFT 48           // user addresses are below
#define PATIENCE_NS UINT64_C(4000000000)

// The process that the agent knows of. Written when it is loaded, and in children of fork, which
// have one thread then.
static pid_t process;
static uintptr_t forks;

__attribute__((constructor(101))) static void begin(void)
{
    process = now_process();
}

static uintptr_t self(void)
{
    return (uintptr_t)__builtin_thread_pointer() | forks << FORKS_SHIFT;
}

bool lock_try(struct lock *lock)
{
    uintptr_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(&lock->holder, &nobody, self(),
                                                   memory_order_acquire, memory_order_relaxed);
}

bool lock_is_mine(const struct lock *lock)
{
    return (atomic_load_explicit(&lock->holder, memory_order_relaxed) & ~ABANDONED) == self();
}

int lock_take_unless(struct lock *lock, const _Atomic bool *word)
{
    struct patience patience = {0};
    while (!lock_try(lock)) {
        uintptr_t holder = atomic_load_explicit(&lock->holder, memory_order_relaxed);
        if (holder == 0)
            continue;
        if ((holder & ~ABANDONED) == self())
            return -EDEADLK;
        if (holder & ABANDONED || holder >> FORKS_SHIFT != self() >> FORKS_SHIFT ||
            now_process() != process)
            return -EOWNERDEAD;
        if (atomic_load_explicit(word, memory_order_relaxed))
            return -ECANCELED;
        if (patience_lasts(&patience))
            continue;
        atomic_compare_exchange_strong_explicit(&lock->holder, &holder, holder | ABANDONED,
                                                memory_order_relaxed, memory_order_relaxed);
        return -ETIMEDOUT;
    }
    return 0;
}

int lock_take(struct lock *lock)
{
    static const _Atomic bool never;
    return lock_take_unless(lock, &never);
}

void lock_release(struct lock *lock)
{
    atomic_store_explicit(&lock->holder, 0, memory_order_release);
}

void lock_after_fork(void)
{
    forks++;
    process = now_process();
}

bool lock_break(struct lock *lock)
{
    return atomic_exchange_explicit(&lock->holder, 0, memory_order_acq_rel) != 0;
}

bool patience_lasts(struct patience *patience)
{
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (now_process() != process || !now)
        return false;
    if (!patience->end)
        patience->end = now + PATIENCE_NS;
    syscall(SYS_sched_yield);
    return now < patience->end;
}
