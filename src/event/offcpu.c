// SPDX-License-Identifier: MIT
#include "event/offcpu.h"
#include "event/ring.h"
#include "event/tick.h"
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define NO_CALL (-2L)

int offcpu_open(struct offcpu *offcpu, pid_t thread)
{
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    attributes.sample_period = 1;
    attributes.exclude_hv = 1;
    attributes.disabled = 1;
    attributes.sigtrap = 1;
    attributes.remove_on_exec = 1;
    attributes.sig_data = OFFCPU_COOKIE;
    ring_ask_switches(&attributes);
    *offcpu = (struct offcpu){.event = mapped_event_none()};
    const int fd = mapped_event_open(thread, &attributes);
    if (fd < 0)
        return fd;
    mapped_event_keep(&offcpu->event, fd, MAPPED_WITH_RING);
    return 0;
}

static bool is_one_of(long number, const short *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i] == number)
            return true;
    return false;
}

// The cause by the system call that a thread blocks in.
// LIVE_OFFCPU_VALUES: none that has a value of its own.
static enum live_offcpu_value cause_of(long number)
{
    static const short locks[] = {SYS_futex, SYS_semop, SYS_semtimedop, SYS_flock},
                       sleeps[] =
                           {
                               SYS_nanosleep,       SYS_clock_nanosleep,
                               SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
#ifdef SYS_pause
                               SYS_pause,
#endif
                           },
                       others[] = {SYS_wait4,   SYS_waitid, SYS_sched_yield, SYS_msgrcv,
                                   SYS_msgsnd,  SYS_mmap,   SYS_munmap,      SYS_mprotect,
                                   SYS_madvise, SYS_clone,  SYS_execve};
    if (number == NO_CALL) // a page that had to be read
        return LIVE_OFFCPU_IO;
    if (number < 0 || is_one_of(number, others, sizeof others / sizeof *others))
        return LIVE_OFFCPU_VALUES;
    if (is_one_of(number, locks, sizeof locks / sizeof *locks))
        return LIVE_OFFCPU_LOCK;
    return is_one_of(number, sleeps, sizeof sleeps / sizeof *sleeps) ? LIVE_OFFCPU_SLEEP
                                                                     : LIVE_OFFCPU_IO;
}

static void came_back(struct offcpu *offcpu, uint64_t now, enum live_offcpu_value cause)
{
    if (!offcpu->out_ns || now < offcpu->out_ns)
        return;
    const uint64_t ns = now - offcpu->out_ns;
    offcpu->pending[LIVE_OFFCPU_NS] += ns;
    offcpu->pending[LIVE_OFFCPU_WAITS]++;
    if (offcpu->was_preempted)
        cause = LIVE_OFFCPU_QUEUE;
    if (cause < LIVE_OFFCPU_VALUES)
        offcpu->pending[cause] += ns;
    offcpu->out_ns = 0;
}

void offcpu_read(struct offcpu *offcpu, long system_call)
{
    void *page = mapped_event_ring(&offcpu->event);
    if (!page)
        return;
    const enum live_offcpu_value cause = cause_of(system_call);
    struct ring ring = ring_begin(page);
    struct ring_switch change;
    while (ring_next_switch(&ring, &change)) {
        if (!change.is_out) {
            came_back(offcpu, change.ns, cause);
            continue;
        }
        offcpu->out_ns = change.ns;
        offcpu->was_preempted = change.is_preempted;
    }
    ring_finish(&ring);
}
