// SPDX-License-Identifier: MIT
#include "event/clock.h"
#include "base/agent_map.h"
#include "base/now.h"
#include "event/ring.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define TICK_COOKIE UINT64_C(0x6361697274696b65) // comes back with each of our signals
#define SWITCH_COOKIE (TICK_COOKIE + 1)          // and with those that a wait has ended
#define PERF_TRAP 6                              // si_code TRAP_PERF: older headers lack it
#define DESCRIPTOR_FLOOR 1000                    // out of the program's way, if we must keep one

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

// The part of siginfo_t that a perf SIGTRAP fills; libc's headers of this age do not name it.
struct perf_siginfo {
    int signal, error, code, padding;
    void *address;
    unsigned long data;
};

bool clock_forbidden;

// close() is a point where a thread may be cancelled: never in a signal handler.
static void close_raw(int fd)
{
    syscall(SYS_close, fd);
}

static pid_t thread_number(const struct thread_clock *clock)
{
    return clock->thread ? clock->thread : (pid_t)syscall(SYS_gettid);
}

// The clock of a thread has a number made of the thread's (see clock_getcpuclockid).
static clockid_t cpu_clock_id(pid_t thread)
{
    return (clockid_t)(~(unsigned)thread << 3 | 6);
}

// Opened disabled: start_event() comes when all is set up.
static int open_event(pid_t thread, uint64_t config, uint64_t period, bool sigtrap,
                      bool exclude_kernel, bool chains)
{
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = config;
    attributes.sample_period = period;
    attributes.exclude_kernel = exclude_kernel;
    attributes.exclude_hv = 1;
    attributes.disabled = 1;
    if (sigtrap) {
        attributes.sigtrap = 1;
        attributes.remove_on_exec = 1;
        attributes.sig_data =
            config == PERF_COUNT_SW_CONTEXT_SWITCHES ? SWITCH_COOKIE : TICK_COOKIE;
    } else {
        attributes.wakeup_events = 1;
    }
    if (chains)
        ring_ask(&attributes);
    int fd = (int)syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// Pages have addresses that end in zeroes: this bit says that a ring lies behind.
#define WITH_RING 1

static void *page_of(uintptr_t tagged)
{
    return (void *)(tagged & ~(uintptr_t)WITH_RING);
}

static size_t bytes_of(uintptr_t tagged)
{
    return tagged & WITH_RING ? PAGE + RING_BYTES : PAGE;
}

static uintptr_t map_event(int fd, uintptr_t ring)
{
    const size_t bytes = bytes_of(ring);
    agent_map_claim(bytes, AGENT_MAP_SHARED);
    void *page = mmap(agent_map_hint(bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        return (uintptr_t)page | ring;
    agent_map_release(bytes, AGENT_MAP_SHARED);
    return 0;
}

// Ties the event's life to a mapping instead of the descriptor, which start_event() closes.
static void keep_event(struct thread_clock *clock, int index, int fd, bool ring)
{
    uintptr_t page = ring ? map_event(fd, WITH_RING) : 0;
    if (!page)
        page = map_event(fd, 0);
    clock->pages[index] = page;
    clock->descriptors[index] = fd;
    if (page)
        return;
    // The limit of locked memory: keep the descriptor, away from those that the program counts on.
    int high = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_FLOOR);
    if (high < 0)
        return;
    close_raw(fd);
    clock->descriptors[index] = high;
}

// A shortened period is good for one tick: at its own pace it would be a storm.
static void start_event(struct thread_clock *clock, int index, bool once)
{
    const int fd = clock->descriptors[index];
    const bool mapped = clock->pages[index] != 0;
    if (fd < 0)
        return;
    // The first tick may come at once, and its handler closes the clock and opens another: closed
    // twice, the number may be that of a file of the program's by then.
    if (mapped)
        clock->descriptors[index] = -1;
    atomic_signal_fence(memory_order_seq_cst);
    syscall(SYS_ioctl, fd, once ? PERF_EVENT_IOC_REFRESH : PERF_EVENT_IOC_ENABLE, once ? 1 : 0);
    if (mapped)
        close_raw(fd);
}

// A CPU clock that sees the kernel's part as well, if we may ask for that.
static int open_cpu_clock(struct thread_clock *clock, uint64_t period, bool sigtrap, bool chains)
{
    int fd = open_event(clock->thread, PERF_COUNT_SW_TASK_CLOCK, period, sigtrap, false, chains);
    clock->exclude_kernel = fd == -EACCES || fd == -EPERM;
    return clock->exclude_kernel
               ? open_event(clock->thread, PERF_COUNT_SW_TASK_CLOCK, period, sigtrap, true, false)
               : fd;
}

static int open_sigtrap(struct thread_clock *clock, const struct live_options *options,
                        uint64_t first)
{
    const bool chains = options->kernel == LIVE_KERNEL_FRAMES;
    int fd = open_cpu_clock(clock, first, true, chains);
    if (fd < 0)
        return fd;
    keep_event(clock, 0, fd, chains && !clock->exclude_kernel);
    if (!live_has(options, LIVE_EVENT_WALL))
        return 0;
    // A switch happens inside the kernel: without the right to watch it, waiting is not seen.
    fd = open_event(clock->thread, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, true, false, false);
    if (fd < 0)
        return fd;
    keep_event(clock, 1, fd, false);
    return 0;
}

static int open_signal(struct thread_clock *clock, uint64_t first)
{
    int fd = open_cpu_clock(clock, first, false, false);
    if (fd < 0)
        return fd;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = thread_number(clock)};
    if (fcntl(fd, F_SETFL, O_ASYNC) || fcntl(fd, F_SETSIG, CLOCK_SIGNAL) ||
        fcntl(fd, F_SETOWN_EX, &owner)) {
        int error = -errno;
        close_raw(fd);
        return error;
    }
    keep_event(clock, 0, fd, false);
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
    clock->descriptors[0] = clock->descriptors[1] = -1;
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
    start_event(clock, 1, false);
    start_event(clock, 0, clock->shortened);
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

// A child of fork has not got it.
static void forget_page(uintptr_t page, bool ours)
{
    if (ours)
        munmap(page_of(page), bytes_of(page));
    agent_map_release(bytes_of(page), AGENT_MAP_SHARED);
}

void clock_close(struct thread_clock *clock)
{
    const bool ours = clock->process == now_process();
    for (int i = 0; i < 2; i++) {
        const uintptr_t page = __atomic_exchange_n(&clock->pages[i], 0, __ATOMIC_RELAXED);
        if (page)
            forget_page(page, ours);
        if (clock->descriptors[i] >= 0 && clock->source != LIVE_SOURCE_AUTO)
            close_raw(clock->descriptors[i]);
        clock->descriptors[i] = -1;
    }
    if (clock->has_timer && ours)
        timer_delete(clock->timer);
    clock->has_timer = false;
    clock->shortened = false;
    clock->source = LIVE_SOURCE_AUTO;
}

// Its thread may be reading the ring: the event goes, and its address stays readable. That page is
// never unmapped again; few programs have their clock taken away.
static void leave_zeroes(uintptr_t page)
{
    mmap(page_of(page), bytes_of(page), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void *clock_ring(const struct thread_clock *clock)
{
    const uintptr_t page = __atomic_load_n(&clock->pages[0], __ATOMIC_RELAXED);
    return page & WITH_RING ? page_of(page) : NULL;
}

void clock_take_away(struct thread_clock *clock)
{
    for (int i = 0; i < 2; i++) {
        // The one that takes the page unmaps it: its thread may be closing the clock at this
        // moment.
        const uintptr_t page = __atomic_exchange_n(&clock->pages[i], 0, __ATOMIC_RELAXED);
        if (page & WITH_RING)
            leave_zeroes(page);
        else if (page)
            forget_page(page, true);
    }
    if (clock->has_timer) {
        const struct itimerspec never = {0};
        timer_settime(clock->timer, 0, &never, NULL);
    }
}

bool clock_is_tick(int signal, const siginfo_t *info)
{
    if (signal == SIGTRAP) {
        const unsigned long data = ((const struct perf_siginfo *)info)->data;
        return info->si_code == PERF_TRAP && (data == TICK_COOKIE || data == SWITCH_COOKIE);
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
    return info->si_signo == SIGTRAP ? ((const struct perf_siginfo *)info)->data == SWITCH_COOKIE
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
