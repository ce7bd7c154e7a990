// SPDX-License-Identifier: MIT
// The mask that the program believes a thread to have: with our signals as it has set them, which
// are really let in.

#include "agent/interpose/own_signals.h"
#include "agent/interpose/signals.h"
#include "agent/session/real.h"
#include "base/now.h"
#include "base/system/signal_mask.h"
#include "patch/sites.h"
#include <errno.h>
#include <string.h>

void signals_show_mask(const struct thread *thread)
{
    sigset_t set;
    sigemptyset(&set);
    own_signals_restore(&set, thread ? thread->hidden : 0);
    signal_mask_change(SIG_BLOCK, &set, NULL);
}

// A child of vfork has no ticks, and what its parent believes is not for it to change: from its
// first change on it has its mask for real.
void signals_show_mask_in_vfork_child(struct thread *thread)
{
    const pid_t child = now_process();
    if (thread && thread->masked_child != child) {
        signals_show_mask(thread);
        thread->masked_child = child;
    }
}

static int change_mask(int (*change)(int, const sigset_t *, sigset_t *), int how,
                       const sigset_t *set, sigset_t *before)
{
    struct thread *thread = thread_self;
    if (!agent.armed || !thread)
        return change(how, set, before);
    if (agent_in_vfork_child()) {
        signals_show_mask_in_vfork_child(thread);
        return change(how, set, before);
    }
    sigset_t stripped;
    uint32_t named = 0, hidden = thread->hidden;
    if (set) {
        stripped = *set;
        named = own_signals_strip(&stripped);
        // Unblocking goes through as it is: one of ours may be blocked for real, waiting (pass_on).
        if (how == SIG_UNBLOCK)
            stripped = *set;
    }
    // Before the change: signals that it unblocks are delivered before it returns.
    if (set && how == SIG_BLOCK)
        thread->hidden |= named;
    else if (set && how == SIG_UNBLOCK)
        thread->hidden &= ~named;
    else if (set && how == SIG_SETMASK)
        thread->hidden = named;
    int result = change(how, set ? &stripped : NULL, before);
    if (result)
        thread->hidden = hidden;
    else if (before)
        own_signals_restore(before, hidden);
    return result;
}

static int change_by_kernel(int how, const sigset_t *set, sigset_t *before)
{
    const int result = signal_mask_change(how, set, before);
    errno = result ? -result : errno;
    return result ? -1 : 0;
}

int signals_change_mask(int how, const uint64_t *set, uint64_t *before)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    if (set)
        memcpy(&wanted, set, sizeof *set);
    return change_mask(change_by_kernel, how, set ? &wanted : NULL, (sigset_t *)before);
}

INTERPOSED int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    return change_mask(REAL(sigprocmask), how, set, before);
}

INTERPOSED int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return change_mask(REAL(pthread_sigmask), how, set, before);
}

// The old ways of saying the same: libc would do them without asking us.
static int change_one(int how, int signal)
{
    sigset_t set;
    sigemptyset(&set);
    return sigaddset(&set, signal) ? -1 : sigprocmask(how, &set, NULL);
}

// The masks of BSD: a bit for each of the first 32 signals. dash still uses them.
static int change_bits(int how, int mask)
{
    sigset_t set, before;
    sigemptyset(&set);
    for (int signal = 1; signal <= 32; signal++)
        if ((unsigned)mask >> (signal - 1) & 1)
            sigaddset(&set, signal);
    if (change_mask(REAL(sigprocmask), how, &set, &before))
        return -1;
    unsigned old = 0;
    for (int signal = 1; signal <= 32; signal++)
        old |= (unsigned)(sigismember(&before, signal) == 1) << (signal - 1);
    return (int)old;
}

INTERPOSED int sigblock(int mask)
{
    return change_bits(SIG_BLOCK, mask);
}

INTERPOSED int sigsetmask(int mask)
{
    return change_bits(SIG_SETMASK, mask);
}

INTERPOSED int siggetmask(void)
{
    return change_bits(SIG_BLOCK, 0);
}

INTERPOSED int sighold(int signal)
{
    return change_one(SIG_BLOCK, signal);
}

INTERPOSED int sigrelse(int signal)
{
    return change_one(SIG_UNBLOCK, signal);
}

const sigset_t *signals_open_mask(const sigset_t *set, sigset_t *stripped)
{
    if (!set || !agent.armed || !sites_exist() || agent_in_vfork_child())
        return set;
    *stripped = *set;
    own_signals_strip(stripped);
    return stripped;
}
