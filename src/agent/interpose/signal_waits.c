// SPDX-License-Identifier: MIT
// Waiting: with another mask, which a handler that comes meanwhile runs with; and for signals.

#include "agent/interpose/own_signals.h"
#include "agent/interpose/signals.h"
#include "agent/session/real.h"
#include "agent/thread/interrupted_call.h"
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *timeout,
                const sigset_t *set, size_t bytes);

#define KNOWN(name)                                                                                \
    static __typeof__(&name) real_##name(void)                                                     \
    {                                                                                              \
        return REAL(name);                                                                         \
    }

// Calls with the mask that the program has asked for, and again as long as a tick has taken the
// place of the signal that should have ended the call. A time-out begins anew then, but the signal
// is pending: it ends the call at once.
#define WAIT(call)                                                                                 \
    ({                                                                                             \
        int result_;                                                                               \
        do                                                                                         \
            result_ = (call);                                                                      \
        while (result_ < 0 && interrupted_call_too_early(set));                                    \
        result_;                                                                                   \
    })

KNOWN(sigsuspend)
KNOWN(pselect)
KNOWN(ppoll)
KNOWN(__ppoll_chk)
KNOWN(epoll_pwait)
KNOWN(epoll_pwait2)

INTERPOSED int sigsuspend(const sigset_t *set)
{
    sigset_t stripped;
    return WAIT(real_sigsuspend()(signals_open_mask(set, &stripped)));
}

INTERPOSED int pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
                       const struct timespec *timeout, const sigset_t *set)
{
    sigset_t stripped;
    return WAIT(real_pselect()(count, readable, writable, exceptional, timeout,
                               signals_open_mask(set, &stripped)));
}

INTERPOSED int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout,
                     const sigset_t *set)
{
    sigset_t stripped;
    return WAIT(real_ppoll()(files, count, timeout, signals_open_mask(set, &stripped)));
}

INTERPOSED int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *timeout,
                           const sigset_t *set, size_t bytes)
{
    sigset_t stripped;
    return WAIT(
        real___ppoll_chk()(files, count, timeout, signals_open_mask(set, &stripped), bytes));
}

INTERPOSED int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout,
                           const sigset_t *set)
{
    sigset_t stripped;
    return WAIT(
        real_epoll_pwait()(epoll, events, count, timeout, signals_open_mask(set, &stripped)));
}

INTERPOSED int epoll_pwait2(int epoll, struct epoll_event *events, int count,
                            const struct timespec *timeout, const sigset_t *set)
{
    sigset_t stripped;
    return WAIT(
        real_epoll_pwait2()(epoll, events, count, timeout, signals_open_mask(set, &stripped)));
}

// A signal's handler may wait: it must find them known.
__attribute__((constructor(101))) static void look_up_waits(void)
{
    real_sigsuspend();
    real_pselect();
    real_ppoll();
    real___ppoll_chk();
    real_epoll_pwait();
    real_epoll_pwait2();
}

// Ticks are not for threads that wait for signals, or read them.
INTERPOSED int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    siginfo_t own;
    int signal;
    if (!info)
        info = &own;
    do
        signal = REAL(sigtimedwait)(set, info, timeout);
    while (agent.armed && signal > 0 && clock_is_tick(signal, info));
    return signal;
}

INTERPOSED int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    return sigtimedwait(set, info, NULL);
}

INTERPOSED int sigwait(const sigset_t *set, int *signal)
{
    int result;
    do
        result = sigtimedwait(set, NULL, NULL);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return errno;
    *signal = result;
    return 0;
}

INTERPOSED int signalfd(int fd, const sigset_t *set, int flags)
{
    sigset_t stripped = *set;
    if (agent.armed)
        own_signals_strip(&stripped);
    return REAL(signalfd)(fd, &stripped, flags);
}
