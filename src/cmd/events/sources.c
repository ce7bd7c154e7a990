// SPDX-License-Identifier: MIT

#include "cmd/events/sources.h"
#include "event/event.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ANY_PERIOD_NS 1000000

static int open_event(uint64_t config, uint64_t period, bool sigtrap, bool exclude_kernel)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = config,
        .sample_period = period,
        .disabled = 1,
        .exclude_kernel = exclude_kernel,
        .exclude_hv = 1,
    };
    if (sigtrap) {
        attr.sigtrap = 1;
        attr.remove_on_exec = 1; // the kernel wants the two together
    }
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

// Time inside the kernel can do without samples: it weighs on the next one.
int open_task_clock(bool sigtrap, uint64_t period_ns)
{
    int fd = open_event(PERF_COUNT_SW_TASK_CLOCK, period_ns, sigtrap, false);
    return fd == -EACCES || fd == -EPERM
               ? open_event(PERF_COUNT_SW_TASK_CLOCK, period_ns, sigtrap, true)
               : fd;
}

int open_kernel_chains(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = ANY_PERIOD_NS,
        .sample_type = PERF_SAMPLE_CALLCHAIN,
        .disabled = 1,
        .exclude_hv = 1,
        .exclude_callchain_user = 1,
        .sigtrap = 1,
        .remove_on_exec = 1,
    };
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

// Waiting begins and ends inside the kernel.
int open_switches(void)
{
    return open_event(PERF_COUNT_SW_CONTEXT_SWITCHES, 1, true, false);
}

static int try_switches(void)
{
    const int fd = open_switches();
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

static int try_sigtrap(enum live_event event)
{
    int fd = open_task_clock(true, ANY_PERIOD_NS);
    if (fd < 0)
        return fd;
    close(fd);
    if (event != LIVE_EVENT_WALL)
        return 0;
    return try_switches();
}

static int try_signal(void)
{
    int fd = open_task_clock(false, ANY_PERIOD_NS);
    if (fd < 0)
        return fd;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
    int error = fcntl(fd, F_SETSIG, SIGRTMIN) || fcntl(fd, F_SETOWN_EX, &owner) ? -errno : 0;
    close(fd);
    return error;
}

static int try_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer))
        return -errno;
    timer_delete(timer);
    return 0;
}

int try_source(enum live_event event, enum live_source source)
{
    if (event == LIVE_EVENT_OFFCPU && source == LIVE_SOURCE_SIGTRAP)
        return try_switches();
    if (!event_of(event)->by_clock) // counted, not sampled
        return -ENOTSUP;
    if (source == LIVE_SOURCE_SIGTRAP)
        return try_sigtrap(event);
    if (event == LIVE_EVENT_WALL)
        return -ENOTSUP;
    return source == LIVE_SOURCE_SIGNAL ? try_signal() : try_timer();
}

enum live_source best_source(enum live_event event)
{
    for (enum live_source source = LIVE_SOURCE_SIGTRAP; source <= LIVE_SOURCE_TIMER; source++)
        if (try_source(event, source) == 0)
            return source;
    return LIVE_SOURCE_AUTO;
}
