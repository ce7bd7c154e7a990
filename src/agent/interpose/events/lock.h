// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_EVENTS_LOCK_H
#define CAIRN_AGENT_INTERPOSE_EVENTS_LOCK_H

// The lock event: how often locks are taken, how long threads wait for them, and who held them.
//
//   pthread_mutex_lock() ─► the caller's context ─► try ─┬─ taken ──────────────────┬─► table:
//                                                        └─ busy: wait for the real ─┘   lock ─► node
//                                                           one; time ─► the caller's node
//                                                           and, as blame, ─► the holder's
//
// The context is found before the lock is taken, so that nobody waits longer for that. The table
// remembers where each lock was taken last; a wait that finds it busy blames that place.
//
// The functions that the program calls are in lock_calls.c, in the agents that count them.

#include "agent/interpose/interposed.h"
#include "agent/thread/counted.h"

// An operation that has begun, on behalf of the caller of the function with this frame.
struct lock_operation {
    const void *frame;
    ref_t node;         // of its context; 0: it is found at the end, or not at all
    ref_t holder;       // where the lock was taken that it waits for; 0: not known
    uint64_t begun;     // the wait; 0: there is none yet
    uint32_t recording; // agent.recording, which its nodes are of
};

// Once, when the main thread is known; in a child of fork; and for each recording of an agent that
// comes late. 0 or -errno.
int lock_start(void);

// These keep errno.
struct lock_operation lock_begin(const void *frame);

// It must wait for a lock, or for something else that nobody holds (NULL).
void lock_wait(struct lock_operation *operation, const void *lock);

// The wait for a lock is over, whether it is taken or not.
void lock_waited(const struct lock_operation *operation);

// The lock is taken, after a wait or without.
void lock_taken(const struct lock_operation *operation, const void *lock);

// A wait for another thread is over: a condition, a semaphore, a barrier, an end.
void lock_synced(const struct lock_operation *operation);

// From now on who waits for this lock blames the caller, who has got it back.
void lock_hold(const struct lock_operation *operation, const void *lock);

// lock_calls.c: tells trackers of the functions that are interposed. Before it is on.
void lock_tell_trackers(void);
struct interposed_group lock_functions(void);

#endif
