// SPDX-License-Identifier: MIT
// The tracker's lock: nobody is interrupted by a handler of the program while he holds it.

#include "track/encode/threads/lock.h"
#include "base/lock.h"
#include "base/system/signal_mask.h"

static struct lock lock;
// A thread forks or unloads a library, holding the lock, and waits for locks of libc: who has one
// of these must not wait for ours. Written by the holder; relaxed: others ask until they see it.
static _Atomic bool held_in_libc;

static void let_signals_come(struct encode_thread *thread, const uint64_t *mask)
{
    signal_mask_release(mask);
    atomic_signal_fence(memory_order_seq_cst);
    if (thread)
        thread->busy = false;
}

bool encode_lock(struct encode_thread *thread, uint64_t *mask)
{
    if (lock_is_mine(&lock))
        return false;
    if (thread)
        thread->busy = true; // for the sample that comes from here on
    atomic_signal_fence(memory_order_seq_cst);
    signal_mask_hold(mask); // a sample that comes sees that the thread is busy
    if (thread)
        thread->busy = true; // again: a handler that came meanwhile may have been, and is not now
    if (!lock_take_unless(&lock, &held_in_libc))
        return true;
    let_signals_come(thread, mask);
    return false;
}

void encode_unlock(struct encode_thread *thread, const uint64_t *mask)
{
    lock_release(&lock);
    let_signals_come(thread, mask);
}

bool encode_lock_for_libc(void)
{
    const bool taken = !lock_take(&lock);
    if (taken)
        atomic_store_explicit(&held_in_libc, true, memory_order_relaxed);
    return taken;
}

void encode_unlock_for_libc(void)
{
    atomic_store_explicit(&held_in_libc, false, memory_order_relaxed);
    lock_release(&lock);
}

bool encode_try_lock(void)
{
    return lock_try(&lock);
}

void encode_release_lock(void)
{
    lock_release(&lock);
}

bool encode_lock_patiently(uint64_t *mask)
{
    struct patience patience = {0};
    while (!encode_lock(NULL, mask))
        if (!patience_lasts(&patience))
            return false;
    return true;
}

void encode_break_lock(bool held)
{
    atomic_store_explicit(&held_in_libc, false, memory_order_relaxed);
    if (held)
        lock_break(&lock);
}
