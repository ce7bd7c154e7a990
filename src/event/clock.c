// SPDX-License-Identifier: MIT
#include "event/clock.h"
#include "base/now.h"
#include "event/ring.h"
#include "event/tick.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

bool clock_forbidden;

static pid_t thread_number(const struct thread_clock *clock)
{
    return clock->thread ? clock->thread : (pid_t)syscall(SYS_gettid);
}

// The clock of a thread has a number made of the thread's (see clock_getcpuclockid).
static clockid_t cpu_clock_id(pid_t thread)
{
    return (clockid_t)(~(unsigned)thread << 3 | 6);
}

enum {
    EVENT_SIGTRAP = 1, // tells by a signal at once; else by waking up
    EVENT_CHAINS = 2,  // with the kernel's frames
    EVENT_USER = 4,    // without the kernel's part
};

// Opened disabled: start_event() comes when all is set up.
static int open_event(pid_t thread, uint64_t config, uint64_t period, unsigned how)
{
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = config;
    attributes.sample_period = period;
    attributes.exclude_kernel = how & EVENT_USER ? 1 : 0;
    attributes.exclude_hv = 1;
    attributes.disabled = 1;
    if (how & EVENT_SIGTRAP) {
        attributes.sigtrap = 1;
        attributes.remove_on_exec = 1;
        attributes.sig_data =
            config == PERF_COUNT_SW_CONTEXT_SWITCHES ? SWITCH_COOKIE : TICK_COOKIE;
    } else {
        attributes.wakeup_events = 1;
    }
    if (how & EVENT_CHAINS)
        ring_ask(&attributes);
    return mapped_event_open(thread, &attributes);
}

// A CPU clock that sees the kernel's part as well, if we may ask for that.
static int open_cpu_clock(struct thread_clock *clock, uint64_t period, unsigned how)
{
    int fd = open_event(clock->thread, PERF_COUNT_SW_TASK_CLOCK, period, how);
    clock->exclude_kernel = fd == -EACCES || fd == -EPERM;
    return clock->exclude_kernel ? open_event(clock->thread, PERF_COUNT_SW_TASK_CLOCK, period,
                                              (how & EVENT_SIGTRAP) | EVENT_USER)
                                 : fd;
}

static int open_sigtrap(struct thread_clock *clock, const struct live_options *options,
                        uint64_t first)
{
    const bool chains = options->kernel == LIVE_KERNEL_FRAMES;
    int fd = open_cpu_clock(clock, first, EVENT_SIGTRAP | (chains ? EVENT_CHAINS : 0));
    if (fd < 0)
        return fd;
    mapped_event_keep(&clock->events[0], fd,
                      chains && !clock->exclude_kernel ? MAPPED_WITH_RING : MAPPED_ALONE);
    // The offcpu event has the same ticks.
    if (!live_has(options, LIVE_EVENT_WALL) || live_has(options, LIVE_EVENT_OFFCPU))
        return 0;
    // A switch happens inside the kernel: without the right to watch it, waiting is not seen.
    fd = open_event(clock->thread, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, EVENT_SIGTRAP);
    if (fd < 0)
        return fd;
    mapped_event_keep(&clock->events[1], fd, MAPPED_ALONE);
    return 0;
}

static int open_signal(struct thread_clock *clock, uint64_t first)
{
    int fd = open_cpu_clock(clock, first, 0);
    if (fd < 0)
        return fd;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = thread_number(clock)};
    if (fcntl(fd, F_SETFL, O_ASYNC) || fcntl(fd, F_SETSIG, CLOCK_SIGNAL) ||
        fcntl(fd, F_SETOWN_EX, &owner)) {
        int error = -errno;
        syscall(SYS_close, fd); // close() is a point where a thread may be cancelled
        return error;
    }
    mapped_event_keep(&clock->events[0], fd, MAPPED_ALONE);
    return 0;
}

static int open_timer(struct thread_clock *clock)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = CLOCK_SIGNAL;
    event.sigev_value.sival_ptr = (void *)TICK_COOKIE;
    event.sigev_notify_thread_id = thread_number(clock);
    if (timer_create(clock->thread ? cpu_clock_id(clock->thread) : CLOCK_THREAD_CPUTIME_ID, &event,
                     &clock->timer))
        return -errno;
    clock->has_timer = true;
    return 0;
}

static int open_source(struct thread_clock *clock, const struct live_options *options,
                       enum live_source source, uint64_t first)
{
    *clock = (struct thread_clock){.thread = clock->thread, .process = now_process()};
    clock->events[0] = clock->events[1] = mapped_event_none();
    if (clock_forbidden)
        return -ENOSYS;
    int error = source == LIVE_SOURCE_SIGTRAP  ? open_sigtrap(clock, options, first)
                : source == LIVE_SOURCE_SIGNAL ? open_signal(clock, first)
                                               : open_timer(clock);
    clock->source = source;
    clock->first = first;
    clock->period = first > options->period_ns ? first : options->period_ns;
    // A timer knows two periods; a perf event only one.
    clock->shortened = source != LIVE_SOURCE_TIMER && first < options->period_ns;
    if (error)
        clock_close(clock);
    return error;
}

int clock_open(struct thread_clock *clock, const struct live_options *options, uint64_t first)
{
    return clock_open_for(clock, 0, options, first);
}

int clock_open_for(struct thread_clock *clock, pid_t thread, const struct live_options *options,
                   uint64_t first)
{
    clock->thread = thread;
    if (options->source != LIVE_SOURCE_AUTO)
        return open_source(clock, options, options->source, first);
    int error = open_source(clock, options, LIVE_SOURCE_SIGTRAP, first);
    if (!error || live_has(options, LIVE_EVENT_WALL))
        return error;
    if (open_source(clock, options, LIVE_SOURCE_SIGNAL, first) == 0)
        return 0;
    return open_source(clock, options, LIVE_SOURCE_TIMER, first);
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

void clock_go(struct thread_clock *clock, const struct live_options *options)
{
    mapped_event_start(&clock->events[1]);
    // A shortened period is good for one tick: at its own pace it would be a storm.
    if (clock->shortened)
        mapped_event_start_once(&clock->events[0]);
    else
        mapped_event_start(&clock->events[0]);
    if (clock->has_timer) {
        struct itimerspec setting = {.it_interval = timespec_of(options->period_ns),
                                     .it_value = timespec_of(clock->first)};
        timer_settime(clock->timer, 0, &setting, NULL);
    }
}

void clock_resume(struct thread_clock *clock, const struct live_options *options)
{
    enum live_source source = clock->source;
    if (!clock->shortened)
        return;
    clock_close(clock);
    clock_reopen(clock, options, source);
}

void clock_reopen(struct thread_clock *clock, const struct live_options *options,
                  enum live_source source)
{
    clock->thread = 0; // the one that ticks
    if (source != LIVE_SOURCE_AUTO && !open_source(clock, options, source, options->period_ns))
        clock_go(clock, options);
}

void clock_change_period(struct thread_clock *clock, const struct live_options *options,
                         uint64_t period)
{
    const enum live_source source = clock->source;
    clock_close(clock);
    clock->thread = 0; // the one that ticks
    if (open_source(clock, options, source, period))
        clock_reopen(clock, options, source);
    else
        clock_go(clock, options);
}

void clock_set(struct thread_clock *clock, const struct live_options *options, uint64_t later)
{
    enum live_source source = clock->source;
    if (clock->has_timer) {
        const struct itimerspec setting = {.it_value = timespec_of(later)};
        timer_settime(clock->timer, 0, &setting, NULL);
        return;
    }
    clock->thread = 0; // the one that ticks
    clock_close(clock);
    if (source == LIVE_SOURCE_AUTO || open_source(clock, options, source, later))
        return;
    clock->shortened = true; // good for one tick
    clock_go(clock, options);
}

void clock_close(struct thread_clock *clock)
{
    const bool ours = clock->process == now_process();
    for (int i = 0; i < 2; i++) {
        if (clock->source == LIVE_SOURCE_AUTO) // zeroes: it was never opened
            clock->events[i].descriptor = -1;
        mapped_event_close(&clock->events[i], ours);
    }
    if (clock->has_timer && ours)
        timer_delete(clock->timer);
    clock->has_timer = false;
    clock->shortened = false;
    clock->source = LIVE_SOURCE_AUTO;
}

void *clock_ring(const struct thread_clock *clock)
{
    return mapped_event_ring(&clock->events[0]);
}

void clock_take_away(struct thread_clock *clock)
{
    for (int i = 0; i < 2; i++)
        mapped_event_take_away(&clock->events[i]);
    if (clock->has_timer) {
        const struct itimerspec never = {0};
        timer_settime(clock->timer, 0, &never, NULL);
    }
}

bool clock_is_tick(int signal, const siginfo_t *info)
{
    if (signal == SIGTRAP) {
        const uint64_t cookie = tick_cookie(info);
        return cookie - TICK_COOKIE < TICK_COOKIES;
    }
    if (signal != CLOCK_SIGNAL)
        return false;
    if (info->si_code == SI_TIMER || info->si_code == SI_QUEUE)
        return (uint64_t)info->si_value.sival_ptr == TICK_COOKIE;
    return info->si_code >= POLL_IN && info->si_code <= POLL_HUP;
}

int clock_send_last_tick(pid_t process, pid_t thread)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = CLOCK_SIGNAL;
    info.si_code = SI_QUEUE;
    info.si_pid = process;
    info.si_value.sival_ptr = (void *)TICK_COOKIE;
    return syscall(SYS_rt_tgsigqueueinfo, process, thread, CLOCK_SIGNAL, &info) ? -errno : 0;
}

bool clock_follows_wait(const siginfo_t *info)
{
    return info->si_signo == SIGTRAP ? tick_cookie(info) == SWITCH_COOKIE
                                     : clock_is_last_tick(info);
}

bool clock_is_last_tick(const siginfo_t *info)
{
    return info->si_signo == CLOCK_SIGNAL && info->si_code == SI_QUEUE;
}

uint64_t clock_now(enum live_event event)
{
    return now_ns(event == LIVE_EVENT_WALL ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_cpu_of(pid_t thread)
{
    return now_ns(cpu_clock_id(thread));
}
