// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_LOCK_H
#define CAIRN_BASE_LOCK_H

// Locks of the agent, and waits that end.
//
// The program may fork while another thread holds a lock. The child has a copy of the lock but not
// the thread, so the lock would never be released. So a lock names its holder, and a waiter gives
// up. It does so at once if the holder is this very thread (a handler has interrupted it) or
// belongs to another process, and after some seconds in any case. A thread that does not get a lock
// does not touch what it guards.
//
//      63        48 47                       1   0
//     +------------+--------------------------+---+
//     |   forks    |  the holder's thread     | A |     0: free
//     +------------+--------------------------+---+
//
// The thread is its thread pointer. `forks` counts the forks from the first process to that of the
// holder. A is set by a waiter that has given up: others then do not wait, until it is released.

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
    _Atomic uintptr_t holder; // acquire and release order the data that the lock guards
};

// Takes the lock if it is free. Signal-safe.
bool lock_try(struct lock *lock);

// Waits for the lock. 0, or it was not taken: -EDEADLK: this thread holds it; -EOWNERDEAD: the
// holder is not in this process, or others have given up on it; -ETIMEDOUT. Signal-safe.
int lock_take(struct lock *lock);

// The same, but waits only as long as the word is false; else -ECANCELED.
int lock_take_unless(struct lock *lock, const _Atomic bool *word);

void lock_release(struct lock *lock);

// Whether this thread holds it. Signal-safe.
bool lock_is_mine(const struct lock *lock);

// In a child of fork, before anything else of ours: locks that are held here were taken in the
// parent.
void lock_after_fork(void);

// In a child of fork: frees the lock, with any holder. True if a waiter has given up, and what the
// lock guards may be half done.
bool lock_break(struct lock *lock);

// A wait for what another thread of this process is about to do. Zero-initialized.
struct patience {
    uint64_t end; // of the wait, in ns
};

// Lets others run. False: it is time to give up, or the agent does not know of this process (a
// child of vfork, or of a system call), which has no holder to wait for. Signal-safe.
bool patience_lasts(struct patience *patience);

#endif
