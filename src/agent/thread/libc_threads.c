// SPDX-License-Identifier: MIT
// Threads that libc makes by itself, without asking pthread_create(): we do not know them, but
// where code is rewritten it matters that there are any.

#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include "patch/write/traps.h"
#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <time.h>

// The frame must be there to be walked from.
#define MAKES_THREADS INTERPOSED __attribute__((optimize("no-omit-frame-pointer")))

static void expect_threads(void)
{
    if (agent.armed)
        tracker_expect_threads();
}

// The program's function is called with nearly all signals blocked, ours among them: from now on no
// thread may meet a trap.
static void expect_blocked_signals(void)
{
    static _Atomic bool known;
    if (!agent.armed || atomic_exchange(&known, true))
        return;
    traps_hold_for_good();
}

MAKES_THREADS int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    if (event && event->sigev_notify == SIGEV_THREAD) {
        expect_threads();
        expect_blocked_signals();
    }
    return REAL(timer_create)(clock, event, timer);
}

MAKES_THREADS int mq_notify(mqd_t queue, const struct sigevent *event)
{
    if (event && event->sigev_notify == SIGEV_THREAD)
        expect_threads();
    return REAL(mq_notify)(queue, event);
}

MAKES_THREADS int getaddrinfo_a(int mode, struct gaicb *list[], int count, struct sigevent *event)
{
    expect_threads();
    return REAL(getaddrinfo_a)(mode, list, count, event);
}

// On x86-64 the names for large files mean the same functions; which one a header gives to C is a
// matter of options.
#define ALSO(type, name, arguments, passed)                                                        \
    type name##_entry arguments __asm__(#name);                                                    \
    type name##_entry64 arguments __asm__(#name "64");                                             \
    MAKES_THREADS type name##_entry arguments                                                      \
    {                                                                                              \
        expect_threads();                                                                          \
        return REAL(name) passed;                                                                  \
    }                                                                                              \
    MAKES_THREADS type name##_entry64 arguments                                                    \
    {                                                                                              \
        expect_threads();                                                                          \
        return REAL(name) passed;                                                                  \
    }

ALSO(int, aio_read, (struct aiocb * request), (request))
ALSO(int, aio_write, (struct aiocb * request), (request))
ALSO(int, aio_fsync, (int operation, struct aiocb *request), (operation, request))
ALSO(int, lio_listio, (int mode, struct aiocb *const list[], int count, struct sigevent *event),
     (mode, list, count, event))
