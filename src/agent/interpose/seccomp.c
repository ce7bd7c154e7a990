// SPDX-License-Identifier: MIT
// Programs that confine themselves to some system calls (seccomp): a call of ours that is not among
// them would be their end. So what they are about to forbid is looked at before it holds, and the
// agent does without, or leaves the thread alone for good. The same goes for other things that they
// forbid themselves by prctl().

#include "agent/interpose/seccomp_filter.h"
#include "agent/interpose/syscall.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "agent/thread/interrupted_call.h"
#include "agent/thread/signal_stack.h"
#include "agent/thread/thread.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "base/system/huge.h"
#include "loadmap/loadmap.h"
#include <errno.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

bool seccomp_holds;

// Things that were given up for the filter's sake; taken back if there is no filter after all.
struct given_up {
    bool clocks, advice, goodbye, stacks, pending, left;
};

static bool is_readable(const void *first, size_t bytes)
{
    return first && loadmap_readable((uintptr_t)first & ~(uintptr_t)7) &&
           loadmap_readable(((uintptr_t)first + bytes - 1) & ~(uintptr_t)7);
}

// NULL: strict mode, in which a thread may read, write, exit, and return from handlers.
static unsigned forbids(const struct sock_fprog *filter)
{
    if (!filter)
        return FILTER_LEAVE;
    if (!is_readable(filter, sizeof *filter) || !filter->len ||
        !is_readable(filter->filter, filter->len * sizeof *filter->filter))
        return 0; // no filter: the kernel will say so
    return seccomp_filter_forbids(filter->filter, filter->len,
                                  live_rewrites(&agent.session->options));
}

static struct given_up give_up(const struct sock_fprog *filter, bool everybody)
{
    const unsigned forbidden = forbids(filter);
    struct given_up given = {.clocks = clock_forbidden, .advice = agent_map_without_advice};
    clock_forbidden |= (forbidden & (FILTER_NO_CLOCKS | FILTER_LEAVE)) != 0;
    agent_map_without_advice |= (forbidden & (FILTER_NO_ADVICE | FILTER_LEAVE)) != 0;
    given.stacks = signal_stack_forbidden;
    signal_stack_forbidden |= (forbidden & (FILTER_NO_STACKS | FILTER_LEAVE)) != 0;
    given.goodbye = agent.silent;
    agent.silent |= (forbidden & (FILTER_NO_GOODBYE | FILTER_LEAVE)) != 0;
    if (forbidden & FILTER_LEAVE) {
        agent_note("a program forbade itself system calls that samples need (seccomp), and was not "
                   "profiled from then on");
        given.left = true;
        thread_retire(everybody);
    } else if (clock_forbidden && !given.clocks) {
        agent_note(
            "a program forbade itself what the clock of a thread needs (seccomp): threads that "
            "it began later were not sampled");
    }
    given.pending = interrupted_call_unknown;
    if (forbidden & FILTER_NO_PENDING && !interrupted_call_unknown) {
        interrupted_call_unknown = true;
        agent_note("a program forbade itself to ask for pending signals (seccomp): one that came "
                   "together with a sample may have failed to interrupt a system call");
    }
    return given;
}

static void take_back(const struct given_up *given)
{
    const int saved = errno;
    clock_forbidden = given->clocks;
    agent_map_without_advice = given->advice;
    agent.silent = given->goodbye;
    signal_stack_forbidden = given->stacks;
    interrupted_call_unknown = given->pending;
    if (given->left)
        thread_list_begin_all();
    errno = saved;
}

// The mode, the flags and the filter, if this call confines the program.
static bool confines(long number, const unsigned long argument[5], bool *everybody,
                     const struct sock_fprog **filter)
{
    unsigned long mode = argument[1];
    *everybody = false;
    *filter = (const struct sock_fprog *)argument[2];
    if (number == SYS_seccomp) {
        if (argument[0] != SECCOMP_SET_MODE_STRICT && argument[0] != SECCOMP_SET_MODE_FILTER)
            return false;
        mode = argument[0] == SECCOMP_SET_MODE_STRICT ? SECCOMP_MODE_STRICT : SECCOMP_MODE_FILTER;
        *everybody = argument[1] & SECCOMP_FILTER_FLAG_TSYNC;
    } else if (argument[0] != PR_SET_SECCOMP) {
        return false;
    }
    if (mode == SECCOMP_MODE_STRICT)
        *filter = NULL;
    else if (mode != SECCOMP_MODE_FILTER || !*filter)
        return false;
    return agent.active && thread_self && !agent_in_vfork_child();
}

// Whether the agent's system calls, and the return from its handlers, stay system calls where those
// in a part of the address space, or all others, become signals.
static bool spares_us(const unsigned long argument[5])
{
    const uintptr_t ours[] = {(uintptr_t)syscall_raw, (uintptr_t)syscall_next,
                              getauxval(AT_SYSINFO_EHDR)};
    const bool wanted = argument[1] == PR_SYS_DISPATCH_ON;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if ((ours[i] - argument[2] < argument[3]) != wanted)
            return false;
    return true;
}

// System calls of a thread become signals to it, ours among them (PR_SET_SYSCALL_USER_DISPATCH): it
// is left alone until they do no more.
static long dispatch_call(const unsigned long argument[5])
{
    struct thread *thread = agent.active && !agent_in_vfork_child() ? thread_self : NULL;
    const bool off = argument[1] == PR_SYS_DISPATCH_OFF;
    const bool left = thread && !thread->dispatched && !off && !spares_us(argument);
    if (left) {
        agent_note("a program caught the system calls of a thread itself (prctl), which was not "
                   "profiled meanwhile");
        thread->dispatched = 1;
        thread_leave();
    }
    const long result =
        syscall_next(SYS_prctl, argument[0], argument[1], argument[2], argument[3], argument[4]);
    const bool back = thread && thread->dispatched && (off ? !result : left && result);
    if (back) {
        const int saved = errno;
        thread->dispatched = 0;
        thread_begin_late(thread);
        errno = saved;
    }
    return result;
}

// A prctl() that has returned: it may have named the calling thread.
static long see_name(long result, const unsigned long argument[5])
{
    if ((int)argument[0] == PR_SET_NAME && !result && thread_self && !agent_in_vfork_child())
        thread_set_name(thread_self, (const char *)argument[1]);
    return result;
}

static bool is_prctl(long number, const unsigned long argument[5], int option)
{
    return number == SYS_prctl && (int)argument[0] == option;
}

long seccomp_call(long number, const unsigned long argument[5])
{
    const struct sock_fprog *filter;
    bool everybody;
    if (is_prctl(number, argument, PR_SET_SYSCALL_USER_DISPATCH))
        return dispatch_call(argument);
    if (is_prctl(number, argument, PR_SET_TSC) && argument[1] == PR_TSC_SIGSEGV)
        now_without_counter();
    if (!confines(number, argument, &everybody, &filter)) {
        const long result =
            syscall_next(number, argument[0], argument[1], argument[2], argument[3], argument[4]);
        return number == SYS_prctl ? see_name(result, argument) : result;
    }
    const struct given_up given = give_up(filter, everybody);
    const long result =
        syscall_next(number, argument[0], argument[1], argument[2], argument[3], argument[4]);
    if (result) {
        take_back(&given);
    } else {
        seccomp_holds = true;
        agent_map_locked = false; // the calls that keep ours unlocked may be forbidden
    }
    return result;
}

INTERPOSED int prctl(int option, ...)
{
    unsigned long argument[5] = {(unsigned)option};
    va_list list;
    va_start(list, option);
    for (unsigned i = 1; i < 5; i++)
        argument[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP || option == PR_SET_TSC || option == PR_SET_SYSCALL_USER_DISPATCH)
        return (int)seccomp_call(SYS_prctl, argument);
    return (int)see_name(REAL(prctl)(option, argument[1], argument[2], argument[3], argument[4]),
                         argument);
}
