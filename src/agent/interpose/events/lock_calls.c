// SPDX-License-Identifier: MIT
// The functions by which threads wait for each other. A lock is tried before it is waited for: the
// one or the other takes it as the program has asked, and says the same of errors. A wait has no
// clock but for a lock that is busy.

#include "agent/interpose/dl_interpose.h"
#include "agent/interpose/events/lock.h"
#include "agent/interpose/interposed.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#define NS_PER_S 1000000000

__attribute__((constructor(101))) static void look_up_locks(void)
{
    interposed_look_up_all(INTERPOSED_GROUP(interposed_lock));
}

struct interposed_group lock_functions(void)
{
    return INTERPOSED_GROUP(interposed_lock);
}

void lock_tell_trackers(void)
{
    interposed_tell_trackers(lock_functions());
}

// Whether the call is the program's, and counts. libc locks on behalf of the agent, too.
#define COUNTS                                                                                     \
    (counted_is_on(LIVE_EVENT_LOCK) && agent_is_recording() &&                                     \
     !dl_interpose_is_ours(__builtin_return_address(0)))
#define FRAME __builtin_frame_address(0)

// A condition variable of old programs is another one, under the same name.
#define COND_VERSION "GLIBC_2.3.2"

#define KNOW(name, version)                                                                        \
    extern __typeof__(name) name;                                                                  \
    INTERPOSED_FUNCTION_OF(name, interposed_lock, version)

// Whether a lock was taken: a robust one may have lost its owner.
static inline bool is_taken(int result)
{
    return result == 0 || result == EOWNERDEAD;
}

// The real functions look at these before they take a free lock.
static bool is_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static bool is_time(const struct timespec *time)
{
    return time->tv_nsec >= 0 && time->tv_nsec < NS_PER_S;
}

// A function that takes a lock, or waits for it by `call`; `attempt` takes it if it is free.
#define TAKE(lock, attempt, call)                                                                  \
    ({                                                                                             \
        struct lock_operation operation = lock_begin(FRAME);                                       \
        int result = (attempt);                                                                    \
        if (result == EBUSY) {                                                                     \
            lock_wait(&operation, lock);                                                           \
            result = (call);                                                                       \
            lock_waited(&operation);                                                               \
        }                                                                                          \
        if (is_taken(result))                                                                      \
            lock_taken(&operation, lock);                                                          \
        result;                                                                                    \
    })

// The same for one that does not wait.
#define TRY(lock, attempt)                                                                         \
    ({                                                                                             \
        const struct lock_operation operation = lock_begin(FRAME);                                 \
        const int result = (attempt);                                                              \
        if (is_taken(result))                                                                      \
            lock_taken(&operation, lock);                                                          \
        result;                                                                                    \
    })

#define LOCKS(type, name, attempt, sound, parameters, arguments)                                   \
    KNOW(name, 0);                                                                                 \
    INTERPOSED int name parameters                                                                 \
    {                                                                                              \
        if (!COUNTS || !(sound))                                                                   \
            return INTERPOSED_REAL(name) arguments;                                                \
        return TAKE(lock, INTERPOSED_REAL(attempt)(lock), INTERPOSED_REAL(name) arguments);        \
    }                                                                                              \
    _Static_assert(true, "")

#define TRIES(name, type)                                                                          \
    KNOW(name, 0);                                                                                 \
    INTERPOSED int name(type *lock)                                                                \
    {                                                                                              \
        return COUNTS ? TRY(lock, INTERPOSED_REAL(name)(lock)) : INTERPOSED_REAL(name)(lock);      \
    }                                                                                              \
    _Static_assert(true, "")

TRIES(pthread_mutex_trylock, pthread_mutex_t);
LOCKS(pthread_mutex_t, pthread_mutex_lock, pthread_mutex_trylock, true, (pthread_mutex_t * lock),
      (lock));
LOCKS(pthread_mutex_t, pthread_mutex_timedlock, pthread_mutex_trylock, true,
      (pthread_mutex_t * lock, const struct timespec *until), (lock, until));
LOCKS(pthread_mutex_t, pthread_mutex_clocklock, pthread_mutex_trylock, is_clock(clock),
      (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until),
      (lock, clock, until));

TRIES(pthread_rwlock_tryrdlock, pthread_rwlock_t);
TRIES(pthread_rwlock_trywrlock, pthread_rwlock_t);
LOCKS(pthread_rwlock_t, pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, true,
      (pthread_rwlock_t * lock), (lock));
LOCKS(pthread_rwlock_t, pthread_rwlock_wrlock, pthread_rwlock_trywrlock, true,
      (pthread_rwlock_t * lock), (lock));
LOCKS(pthread_rwlock_t, pthread_rwlock_timedrdlock, pthread_rwlock_tryrdlock, is_time(until),
      (pthread_rwlock_t * lock, const struct timespec *until), (lock, until));
LOCKS(pthread_rwlock_t, pthread_rwlock_timedwrlock, pthread_rwlock_trywrlock, is_time(until),
      (pthread_rwlock_t * lock, const struct timespec *until), (lock, until));
LOCKS(pthread_rwlock_t, pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock,
      is_clock(clock) && is_time(until),
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),
      (lock, clock, until));
LOCKS(pthread_rwlock_t, pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock,
      is_clock(clock) && is_time(until),
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),
      (lock, clock, until));

// A function that waits for another thread, whatever the outcome.
#define WAIT(call)                                                                                 \
    ({                                                                                             \
        struct lock_operation operation = lock_begin(FRAME);                                       \
        lock_wait(&operation, NULL);                                                               \
        const __typeof__(call) result = (call);                                                    \
        lock_synced(&operation);                                                                   \
        result;                                                                                    \
    })

#define WAITS(name, parameters, arguments)                                                         \
    KNOW(name, 0);                                                                                 \
    INTERPOSED int name parameters                                                                 \
    {                                                                                              \
        return COUNTS ? WAIT(INTERPOSED_REAL(name) arguments) : INTERPOSED_REAL(name) arguments;   \
    }                                                                                              \
    _Static_assert(true, "")

WAITS(pthread_barrier_wait, (pthread_barrier_t * barrier), (barrier));
WAITS(pthread_join, (pthread_t thread, void **value), (thread, value));
WAITS(pthread_timedjoin_np, (pthread_t thread, void **value, const struct timespec *until),
      (thread, value, until));
WAITS(pthread_clockjoin_np,
      (pthread_t thread, void **value, clockid_t clock, const struct timespec *until),
      (thread, value, clock, until));
WAITS(thrd_join, (thrd_t thread, int *value), (thread, value));

// Such a function gives a mutex back meanwhile, and takes it again.
#define CONDITION(name, parameters, arguments, version)                                            \
    KNOW(name, version);                                                                           \
    INTERPOSED int name parameters                                                                 \
    {                                                                                              \
        if (!COUNTS)                                                                               \
            return INTERPOSED_REAL(name) arguments;                                                \
        struct lock_operation operation = lock_begin(FRAME);                                       \
        lock_wait(&operation, NULL);                                                               \
        const int result = INTERPOSED_REAL(name) arguments;                                        \
        lock_hold(&operation, mutex);                                                              \
        lock_synced(&operation);                                                                   \
        return result;                                                                             \
    }                                                                                              \
    _Static_assert(true, "")

CONDITION(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex),
          (condition, mutex), COND_VERSION);
CONDITION(pthread_cond_timedwait,
          (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until),
          (condition, mutex, until), COND_VERSION);
CONDITION(pthread_cond_clockwait,
          (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock,
           const struct timespec *until),
          (condition, mutex, clock, until), 0);
CONDITION(cnd_wait, (cnd_t * condition, mtx_t *mutex), (condition, mutex), 0);
CONDITION(cnd_timedwait, (cnd_t * condition, mtx_t *mutex, const struct timespec *until),
          (condition, mutex, until), 0);

// The locks of C11 have errors of their own.
TRIES(mtx_trylock, mtx_t);
#define TAKE_C11(call)                                                                             \
    ({                                                                                             \
        struct lock_operation operation = lock_begin(FRAME);                                       \
        int result = INTERPOSED_REAL(mtx_trylock)(lock);                                           \
        if (result == thrd_busy) {                                                                 \
            lock_wait(&operation, lock);                                                           \
            result = (call);                                                                       \
            lock_waited(&operation);                                                               \
        }                                                                                          \
        if (result == thrd_success)                                                                \
            lock_taken(&operation, lock);                                                          \
        result;                                                                                    \
    })

KNOW(mtx_lock, 0);
INTERPOSED int mtx_lock(mtx_t *lock)
{
    return COUNTS ? TAKE_C11(INTERPOSED_REAL(mtx_lock)(lock)) : INTERPOSED_REAL(mtx_lock)(lock);
}

KNOW(mtx_timedlock, 0);
INTERPOSED int mtx_timedlock(mtx_t *lock, const struct timespec *until)
{
    return COUNTS ? TAKE_C11(INTERPOSED_REAL(mtx_timedlock)(lock, until))
                  : INTERPOSED_REAL(mtx_timedlock)(lock, until);
}

// A semaphore that is free is taken without a clock. The real functions end a thread that is to be
// cancelled before they look at it.
#define TAKE_SEMAPHORE(call)                                                                       \
    ({                                                                                             \
        struct lock_operation operation = lock_begin(FRAME);                                       \
        const int saved_errno = errno;                                                             \
        pthread_testcancel();                                                                      \
        int result = sem_trywait(semaphore);                                                       \
        if (result) {                                                                              \
            errno = saved_errno;                                                                   \
            lock_wait(&operation, NULL);                                                           \
            result = (call);                                                                       \
        }                                                                                          \
        lock_synced(&operation);                                                                   \
        result;                                                                                    \
    })

#define SEMAPHORE(name, sound, parameters, arguments)                                              \
    KNOW(name, 0);                                                                                 \
    INTERPOSED int name parameters                                                                 \
    {                                                                                              \
        if (!COUNTS || !(sound))                                                                   \
            return INTERPOSED_REAL(name) arguments;                                                \
        return TAKE_SEMAPHORE(INTERPOSED_REAL(name) arguments);                                    \
    }                                                                                              \
    _Static_assert(true, "")

SEMAPHORE(sem_wait, true, (sem_t * semaphore), (semaphore));
SEMAPHORE(sem_timedwait, is_time(until), (sem_t * semaphore, const struct timespec *until),
          (semaphore, until));
SEMAPHORE(sem_clockwait, is_clock(clock) && is_time(until),
          (sem_t * semaphore, clockid_t clock, const struct timespec *until),
          (semaphore, clock, until));
