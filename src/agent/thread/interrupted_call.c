// SPDX-License-Identifier: MIT
#include "agent/thread/interrupted_call.h"
#include "agent/session/agent.h"
#include "agent/session/system_call.h"
#include "event/clock.h"
#include "unwind/arch.h"
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

bool interrupted_call_unknown;

#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define OURS (BIT(SIGTRAP) | BIT(CLOCK_SIGNAL))

// Raised by what the thread itself does: none of them ends a system call.
#define FAULTS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGSYS))

// libc's own: to cancel a thread, and to change all threads' user.
#define OF_LIBC (BIT(32) | BIT(33))

// The kernel's set: its first word is all that there is.
static uint64_t word_of(const void *set)
{
    uint64_t word;
    memcpy(&word, set, sizeof word);
    return word;
}

static unsigned futex_command(const void *ucontext)
{
    return (unsigned)arch_call_argument(ucontext, 1) & (unsigned)FUTEX_CMD_MASK;
}

// The calls that wait until a signal ends them. Others are restarted whatever the handler says
// (fork, a futex that inherits priorities), or never.
static bool can_fail(const void *ucontext)
{
    switch (arch_restarted_call(ucontext)) {
    case SYS_futex:
        return futex_command(ucontext) == FUTEX_WAIT ||
               futex_command(ucontext) == FUTEX_WAIT_BITSET;
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_copy_file_range:
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_flock:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_futex_waitv:
    case SYS_getrandom:
    case SYS_request_key:
    case SYS_keyctl:
        return true;
    }
    return false;
}

// Whether the program has a handler for it, and which. The kernel knows of those, too, that the
// program has installed without libc.
static bool has_handler(int signal, struct kernel_action *action)
{
    struct kernel_action *const none = NULL;
    return !syscall_raw(SYS_rt_sigaction, signal, none, action, sizeof action->mask) &&
           action->handler != SIG_DFL && action->handler != SIG_IGN;
}

// The handler that runs first of those for these signals.
static bool first_handler(uint64_t signals, struct kernel_action *action)
{
    for (signals &= ~OURS; signals; signals &= signals - 1)
        if (has_handler(__builtin_ctzll(signals) + 1, action))
            return true;
    return false;
}

static uint64_t pending(void)
{
    uint64_t signals = 0;
    if (interrupted_call_unknown || syscall_raw(SYS_rt_sigpending, &signals, sizeof signals))
        return 0;
    return signals;
}

// A sleep that has stored the remaining time, but not where it reads how long to sleep: its caller
// continues by itself.
static bool tells_rest(const void *ucontext, unsigned time)
{
    const unsigned long rest = arch_call_argument(ucontext, time + 1);
    return rest && rest != arch_call_argument(ucontext, time);
}

// A call that a tick ends. io_uring_enter() takes the tick in the middle of its wait. The others
// wake without a signal of the program's, for instance when the process is stopped and continued.
// The kernel restarts them then if no handler runs, but the tick's does. It has written down how
// much of the time is left, or knows when it is over; where it does not, the wait begins anew.
static long call_to_repeat(const void *ucontext, enum arch_interruption interruption)
{
    if (interruption == ARCH_RESTARTING && arch_restarted_call(ucontext) != SYS_restart_syscall)
        return -1;
    static const short calls[] = {
        SYS_io_uring_enter,  SYS_pause,     SYS_select, SYS_pselect6, SYS_poll,  SYS_ppoll,
        SYS_clock_nanosleep, SYS_nanosleep, SYS_futex,  SYS_msgrcv,   SYS_msgsnd};
    long number = -1;
    for (size_t i = 0; number < 0 && i < sizeof calls / sizeof *calls; i++)
        number = arch_coded_call(ucontext, calls[i]);
    if ((number == SYS_futex && futex_command(ucontext) != FUTEX_WAIT_BITSET) ||
        (number == SYS_nanosleep && tells_rest(ucontext, 0)) ||
        (number == SYS_clock_nanosleep && tells_rest(ucontext, 2)))
        return -1;
    return number;
}

void interrupted_call_for_good(void *ucontext)
{
    if (arch_interruption(ucontext) == ARCH_RESTARTING && can_fail(ucontext))
        arch_fail_call(ucontext);
}

void interrupted_call_by_tick(void *ucontext)
{
    const enum arch_interruption interruption = arch_interruption(ucontext);
    if (interruption == ARCH_NO_CALL)
        return;
    struct kernel_action action;
    // All signals are blocked here, so what comes is pending.
    const uint64_t let_in = ~word_of(&((const ucontext_t *)ucontext)->uc_sigmask);
    if (interruption == ARCH_RESTARTING && can_fail(ucontext)) {
        if (first_handler(pending() & let_in, &action) && !(action.flags & SA_RESTART))
            arch_fail_call(ucontext);
    } else if (!interrupted_call_unknown) {
        // For a failed call it is not known whether a handler of the program's has run: a program
        // that has any must expect the error.
        const long number = call_to_repeat(ucontext, interruption);
        const bool failed = interruption == ARCH_FAILING;
        if (number >= 0 &&
            !first_handler(failed ? ~(FAULTS | OF_LIBC) : pending() & let_in, &action))
            arch_repeat_call(ucontext, number);
    }
}

bool interrupted_call_too_early(const void *mask)
{
    struct kernel_action action;
    if (errno != EINTR || !mask || !agent.armed || agent_in_vfork_child())
        return false;
    const bool early = first_handler(pending() & ~word_of(mask), &action);
    errno = EINTR;
    return early;
}
