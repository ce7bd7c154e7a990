// SPDX-License-Identifier: MIT
#include "agent/interpose/signals.h"
#include "agent/interpose/own_signals.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "agent/thread/existing_threads.h"
#include "agent/thread/interrupted_call.h"
#include "agent/thread/signal_frame.h"
#include "agent/thread/signal_stack.h"
#include "base/likely.h"
#include "base/now.h"
#include "base/system/signal_mask.h"
#include "loadmap/loadmap.h"
#include "patch/entries/entries.h"
#include "patch/sites.h"
#include "patch/write/traps.h"
#include "unwind/arch.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The actions that the program has installed for them. Guarded by no lock: a program that calls
// sigaction for one signal in two threads at a time gets either, as without cairn; a handler reads
// a copy.
static struct sigaction believed[OWN_SIGNALS];

// For every signal: which of ours the program's handler wants blocked while it runs (we never let
// that happen).
static uint8_t hidden_in_action[_NSIG];

// A handler that wants an alternate stack was installed before we were ready. Relaxed: read once,
// when constructors of libraries have run, by the thread that runs them.
static _Atomic bool early_handlers;

// The actions that it has installed for others with an alternate stack: the kernel enters our
// handler instead, and the signal is led on from there. Read and written as those above.
static struct sigaction wrapped[_NSIG];

#define SA_RESTORER_FLAG 0x04000000 // libc sets it for everybody, and shows it to those who ask

// Sends the signal to ourselves once more, with all it says, for when it is let in again.
static void requeue(int signal, siginfo_t *info)
{
    syscall(SYS_rt_tgsigqueueinfo, now_process(), syscall(SYS_gettid), signal, info);
}

static void die_of(int signal, siginfo_t *info)
{
    struct sigaction fall = {.sa_handler = SIG_DFL};
    REAL(sigaction)(signal, &fall, NULL);
    requeue(signal, info);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    signal_mask_change(SIG_UNBLOCK, &set, NULL);
}

// True if the kernel raised it for what the program did; such a signal cannot be ignored.
static bool is_forced(const siginfo_t *info)
{
    return info->si_code > 0;
}

static sigset_t our_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < OWN_SIGNALS; i++)
        sigaddset(&set, own_signals[i]);
    return set;
}

// Takes ticks away that wait to be delivered; other signals of the kind go back.
static void drain_ticks(void)
{
    const struct timespec now = {0};
    const sigset_t set = our_set();
    siginfo_t info;
    for (int i = 0; i < 4; i++) {
        int signal = (int)syscall(SYS_rt_sigtimedwait, &set, &info, &now, _NSIG / 8);
        if (signal < 0)
            return;
        if (!clock_is_tick(signal, &info))
            requeue(signal, &info);
    }
}

// For later, while none of our ticks is pending: one would swallow it, as such signals do not
// queue.
static void requeue_alone(int signal, siginfo_t *info)
{
    const int saved_errno = errno;
    struct thread *thread = thread_current;
    const enum live_source source = thread ? thread->clock.source : LIVE_SOURCE_AUTO;
    if (thread)
        thread_close_clock(thread);
    drain_ticks();
    requeue(signal, info);
    if (thread) {
        clock_reopen(&thread->clock, &agent.session->options, source);
        thread_reopen_counters(thread);
    }
    errno = saved_errno;
}

void signals_hand_on(const struct sigaction *action, int signal, siginfo_t *info, void *context)
{
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(signal, info, context);
    else
        action->sa_handler(signal);
    __asm__ volatile(""); // no jump: trackers know the handler by our frame
}

// Calls a handler of the program where it would be called without us, and blocks what it asks for.
static void enter_handler(const struct sigaction *action, int signal, siginfo_t *info,
                          void *context)
{
    struct signal_delivery delivery = {
        .signal = signal, .handler = (void *)action->sa_handler, .flags = action->sa_flags};
    uint64_t also;
    sigset_t mask = ((ucontext_t *)context)->uc_sigmask;
    // Ticks by SIGTRAP go on in its handler. The other one of ours waits, as any signal does in its
    // own handler, and in handlers that interrupt that one.
    if (!(action->sa_flags & (int)SA_NODEFER) && signal != SIGTRAP)
        sigaddset(&mask, signal);
    memcpy(&delivery.blocked, &mask, sizeof delivery.blocked); // the kernel's part of it
    mask = action->sa_mask;
    own_signals_strip(&mask);
    memcpy(&also, &mask, sizeof also);
    delivery.blocked |= also;
    switch (signal_stack_lead(context, info, &delivery)) {
    case SIGNAL_STACK_LED:
        return;
    case SIGNAL_STACK_FULL:
        die_of(SIGSEGV, &(siginfo_t){.si_signo = SIGSEGV, .si_code = SI_QUEUE});
        return;
    case SIGNAL_STACK_NOT_OURS:
        signal_mask_change(SIG_SETMASK, (const sigset_t *)&delivery.blocked, NULL);
        signals_hand_on(action, signal, info, context);
    }
}

// A signal of ours that is no tick: the program's.
static void pass_on(int index, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    const int signal = own_signals[index];
    struct sigaction action = believed[index];
    struct thread *thread = thread_self;
    if (thread && thread->hidden & 1u << index && !is_forced(info)) {
        // The program has it blocked: let it wait. Our ticks wait with it, until it is taken. Where
        // code is being rewritten, it comes again until that is done; later none is rewritten.
        if (signal == SIGTRAP && !traps_hold()) {
            requeue(signal, info);
            return;
        }
        sigaddset(&interrupted->uc_sigmask, signal);
        requeue_alone(signal, info);
        return;
    }
    if (action.sa_handler == SIG_DFL || (action.sa_handler == SIG_IGN && is_forced(info))) {
        die_of(signal, info);
        return;
    }
    if (action.sa_handler == SIG_IGN)
        return;
    if (action.sa_flags & (int)SA_RESETHAND)
        believed[index].sa_handler = SIG_DFL;
    if (!(action.sa_flags & SA_RESTART))
        interrupted_call_for_good(context);
    enter_handler(&action, signal, info, context);
}

// In place of handlers that want an alternate stack. Nothing interrupts it.
static void on_wrapped(int signal, siginfo_t *info, void *context)
{
    const struct sigaction action = wrapped[signal];
    arch_allow_unaligned(context);
    enter_handler(&action, signal, info, context);
}

bool signals_wraps(void (*handler)(int))
{
    return handler == (void (*)(int))(void *)on_wrapped;
}

// Turns the kernel's answer about an action of ours into the action that the program has.
static void unwrap(const struct sigaction *program, struct sigaction *action)
{
    const bool reset = action->sa_handler == SIG_DFL && program->sa_flags & (int)SA_RESETHAND;
    if (!reset && !signals_wraps(action->sa_handler))
        return;
    if (!reset)
        action->sa_handler = program->sa_handler;
    action->sa_flags = program->sa_flags | SA_RESTORER_FLAG;
    action->sa_mask = program->sa_mask;
}

void signals_unwrap(int signal, struct sigaction *action)
{
    unwrap(&wrapped[signal], action);
}

// Whether a trap was there that is not there any more: the instruction runs again.
static bool is_over(const siginfo_t *info, uintptr_t pc)
{
    const unsigned char *behind = (const unsigned char *)pc;
    return info->si_code == SI_KERNEL && sites_exist() && behind[-1] != 0xcc && behind[-2] != 0xcd;
}

// An entry that is being switched: the thread continues behind it. A call site: in its stub.
static bool skip_patch(const siginfo_t *info, void *context)
{
    uintptr_t *pc = (uintptr_t *)((char *)context + arch_context_offset(ARCH_RA));
    uintptr_t behind = entries_trapped(*pc);
    if (!behind)
        behind = sites_trapped(*pc);
    if (!behind && is_over(info, *pc))
        behind = *pc - 1;
    if (behind)
        *pc = behind;
    return behind != 0;
}

static enum tick tick_of(int signal, const siginfo_t *info)
{
    const int counter = counter_of_tick(signal, info);
    return counter >= 0                           ? TICK_COUNTER + (unsigned)counter
           : counter_tick_is_offcpu(signal, info) ? TICK_OFFCPU
           : clock_follows_wait(info)             ? TICK_WAIT
                                                  : TICK_PERIOD;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    arch_allow_unaligned(context);
    if (clock_is_tick(signal, info)) {
        // A synchronous tick finds the signal that has interrupted a call. Others interrupt calls
        // themselves, and the program's signal may come at any time.
        if (signal == SIGTRAP && UNLIKELY(arch_interruption(context) != ARCH_NO_CALL))
            interrupted_call_by_tick(context);
        sample_tick(context, tick_of(signal, info));
        if (signal != SIGTRAP)
            interrupted_call_by_tick(context);
        if (clock_is_last_tick(info)) {
            // It comes to a thread that waits.
            const bool fails = arch_interruption(context) == ARCH_FAILING;
            const long number = fails ? arch_coded_call(context, -1) : -1;
            if (number >= 0)
                arch_repeat_call(context, number);
            if (thread_self) // relaxed: waiters read nothing else
                atomic_fetch_add_explicit(&thread_self->last_ticks, 1, memory_order_relaxed);
        }
        errno = saved_errno;
    } else if (signal != SIGTRAP || !skip_patch(info, context)) {
        pass_on(own_signal_index(signal), info, context);
    }
}

// libc's sigaction() never blocks the two signals that libc keeps for itself; but the one of
// asynchronous cancellation would unwind a thread out of the middle of a sample.
static int block_everything(int signal)
{
    struct kernel_action action, *const none = NULL;
    if (syscall_raw(SYS_rt_sigaction, signal, none, &action, sizeof action.mask))
        return -errno;
    action.mask = ~UINT64_C(0);
    return syscall_raw(SYS_rt_sigaction, signal, &action, none, sizeof action.mask) ? -errno : 0;
}

static int install_handlers(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    // Nothing interrupts a sample.
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < OWN_SIGNALS; i++) {
        struct sigaction before;
        if (REAL(sigaction)(own_signals[i], &action, &before))
            return -errno;
        // Ours stays where a recording was not left in good order.
        if (before.sa_sigaction != on_signal)
            believed[i] = before;
        int error = block_everything(own_signals[i]);
        if (error)
            return error;
    }
    return 0;
}

// The same with a function of ours in place of one that wants an alternate stack. 0, or -1 and
// errno.
static int install_wrapped(int signal, const struct sigaction *action, struct sigaction *before)
{
    struct sigaction wrapper = *action;
    const struct sigaction last = wrapped[signal];
    wrapper.sa_sigaction = on_wrapped;
    wrapper.sa_flags |= SA_SIGINFO;
    sigfillset(&wrapper.sa_mask);
    if (!signals_wraps(action->sa_handler)) // it may have heard of ours, and mean its own
        wrapped[signal] = *action;
    if (REAL(sigaction)(signal, &wrapper, before) || block_everything(signal)) {
        wrapped[signal] = last;
        return -1;
    }
    return 0;
}

// Whether it is to be led to the program's alternate stack.
static bool wants_stack(const struct sigaction *action)
{
    struct module_ref module;
    return action->sa_flags & SA_ONSTACK && action->sa_handler != SIG_DFL &&
           action->sa_handler != SIG_IGN &&
           !(loadmap_peek((uintptr_t)action->sa_handler, &module) && module.runtime == RUNTIME_GO);
}

int signals_start(void)
{
    int error = install_handlers();
    // Libraries may have been before us. Those of a program that was started with us in it have
    // called our sigaction().
    const bool any = !agent.session || atomic_load_explicit(&early_handlers, memory_order_relaxed);
    for (int signal = 1; signal < _NSIG && any && !error; signal++) {
        struct sigaction action;
        if (own_signal_index(signal) < 0 && !REAL(sigaction)(signal, NULL, &action) &&
            wants_stack(&action))
            install_wrapped(signal, &action, NULL);
    }
    return error;
}

// Ignoring a signal takes away those that wait.
int signals_stop(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int error = 0;
    for (size_t i = 0; i < OWN_SIGNALS; i++) {
        struct sigaction now;
        if (REAL(sigaction)(own_signals[i], NULL, &now) || now.sa_sigaction != on_signal)
            continue; // it is the program's already
        if (REAL(sigaction)(own_signals[i], &ignore, NULL) ||
            REAL(sigaction)(own_signals[i], &believed[i], NULL))
            error = -errno;
    }
    return error;
}

void signals_open_thread(struct thread *thread)
{
    if (agent.attached)
        return; // the program's calls that block signals are not seen: what it blocks is blocked
    sigset_t set = our_set(), before;
    signal_mask_change(SIG_UNBLOCK, &set, &before);
    thread->hidden |= own_signals_strip(&before);
}

// Makes real what the program believes about our signals.
static void show_beliefs(void)
{
    if (agent_in_vfork_child()) {
        signals_show_mask_in_vfork_child(thread_self);
    } else {
        traps_hold_for_good();
        signals_show_mask(thread_self);
    }
    for (size_t i = 0; i < OWN_SIGNALS; i++) {
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        if (believed[i].sa_handler == SIG_IGN)
            REAL(sigaction)(own_signals[i], &ignore, NULL);
    }
}

static void hide_beliefs(void)
{
    struct sigaction keep[OWN_SIGNALS];
    memcpy(keep, believed, sizeof keep);
    install_handlers();
    memcpy(believed, keep, sizeof keep);
    sigset_t set = our_set();
    signal_mask_change(SIG_UNBLOCK, &set, NULL);
    traps_release();
}

void signals_before_exec(void)
{
    sigset_t set = our_set();
    if (!agent_in_vfork_child()) {
        thread_begin_existing_here(NULL); // its clock must go
        // A tick that is pending over the exec would kill the new program.
        signal_mask_change(SIG_BLOCK, &set, NULL);
        thread_pause_clock();
        drain_ticks();
        signal_mask_change(SIG_UNBLOCK, &set, NULL);
    }
    show_beliefs();
}

void signals_after_failed_exec(void)
{
    if (agent_in_vfork_child())
        return;
    hide_beliefs();
    thread_resume_clock();
}

bool signals_before_spawn(void)
{
    bool ignored = false;
    for (size_t i = 0; i < OWN_SIGNALS; i++)
        ignored |= believed[i].sa_handler == SIG_IGN;
    if (agent_in_vfork_child() || (!ignored && !(thread_self && thread_self->hidden)))
        return false;
    show_beliefs();
    return true;
}

void signals_after_spawn(void)
{
    hide_beliefs();
}

// Changes to our own signals are only written down.
static int believe(int index, const struct sigaction *action, struct sigaction *before)
{
    struct sigaction old = believed[index];
    if (action) {
        believed[index] = *action;
        believed[index].sa_flags |= SA_RESTORER_FLAG;
    }
    if (before)
        *before = old;
    return 0;
}

INTERPOSED int sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    int index = own_signal_index(signal);
    if (!agent.armed && action && action->sa_flags & SA_ONSTACK)
        atomic_store_explicit(&early_handlers, true, memory_order_relaxed);
    if (!agent.armed || signal < 1 || signal >= _NSIG || agent_in_vfork_child())
        return REAL(sigaction)(signal, action, before);
    if (index >= 0)
        return believe(index, action, before);
    struct sigaction stripped;
    uint8_t hidden = 0;
    if (action) {
        stripped = *action;
        hidden = (uint8_t)own_signals_strip(&stripped.sa_mask);
    }
    const struct sigaction last = wrapped[signal];
    int result = action && wants_stack(action)
                     ? install_wrapped(signal, &stripped, before)
                     : REAL(sigaction)(signal, action ? &stripped : NULL, before);
    if (result)
        return result;
    if (before) {
        unwrap(&last, before);
        own_signals_restore(&before->sa_mask, hidden_in_action[signal]);
    }
    if (action)
        hidden_in_action[signal] = hidden;
    // One that is entered this moment still reads the rest.
    if (action && !wants_stack(action))
        wrapped[signal].sa_flags &= ~(int)SA_RESETHAND;
    return 0;
}

static sighandler_t set_handler(int signal, sighandler_t handler, int flags)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (!(flags & (int)SA_NODEFER))
        sigaddset(&action.sa_mask, signal);
    return sigaction(signal, &action, &before) ? SIG_ERR : before.sa_handler;
}

INTERPOSED sighandler_t signal(int signal_number, sighandler_t handler)
{
    if (!agent.armed || own_signal_index(signal_number) < 0) {
        sighandler_t before = REAL(signal)(signal_number, handler);
        if (before != SIG_ERR)
            hidden_in_action[signal_number] = 0;
        return signals_wraps(before) ? wrapped[signal_number].sa_handler : before;
    }
    return set_handler(signal_number, handler, SA_RESTART);
}

INTERPOSED int sigignore(int signal)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    return sigaction(signal, &action, NULL);
}
