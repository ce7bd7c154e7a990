// SPDX-License-Identifier: MIT
#include "event/mapped_event.h"
#include "base/system/agent_map.h"
#include "event/ring.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define DESCRIPTOR_FLOOR 1000 // out of the program's way, if we must keep one

// Pages have addresses that end in zeroes: this bit says that a ring lies behind.
#define WITH_RING 1

// close() is a point where a thread may be cancelled: never in a signal handler.
static void close_raw(int fd)
{
    syscall(SYS_close, fd);
}

static void *page_of(uintptr_t tagged)
{
    return (void *)(tagged & ~(uintptr_t)WITH_RING);
}

static size_t bytes_of(uintptr_t tagged)
{
    return tagged & WITH_RING ? PAGE + RING_BYTES : PAGE;
}

int mapped_event_open(pid_t thread, const struct perf_event_attr *attributes)
{
    int fd = (int)syscall(SYS_perf_event_open, attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
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

void mapped_event_keep(struct mapped_event *event, int descriptor, enum mapped_ring ring)
{
    uintptr_t page = ring == MAPPED_WITH_RING ? map_event(descriptor, WITH_RING) : 0;
    if (!page)
        page = map_event(descriptor, 0);
    event->page = page;
    event->descriptor = descriptor;
    if (page)
        return;
    // The limit of locked memory: keep the descriptor, away from those that the program counts on.
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, DESCRIPTOR_FLOOR);
    if (high < 0)
        return;
    close_raw(descriptor);
    event->descriptor = high;
}

static void start(struct mapped_event *event, unsigned long request, unsigned long argument)
{
    const int fd = event->descriptor;
    const bool mapped = event->page != 0;
    if (fd < 0)
        return;
    // The first tick may come at once, and its handler closes the clock and opens another: closed
    // twice, the number may be that of a file of the program's by then.
    if (mapped)
        event->descriptor = -1;
    atomic_signal_fence(memory_order_seq_cst);
    syscall(SYS_ioctl, fd, request, argument);
    if (mapped)
        close_raw(fd);
}

void mapped_event_start(struct mapped_event *event)
{
    start(event, PERF_EVENT_IOC_ENABLE, 0);
}

void mapped_event_start_once(struct mapped_event *event)
{
    start(event, PERF_EVENT_IOC_REFRESH, 1);
}

void *mapped_event_ring(const struct mapped_event *event)
{
    const uintptr_t page = __atomic_load_n(&event->page, __ATOMIC_RELAXED);
    return page & WITH_RING ? page_of(page) : NULL;
}

// A child of fork has not got it.
static void forget_page(uintptr_t page, bool ours)
{
    if (ours)
        munmap(page_of(page), bytes_of(page));
    agent_map_release(bytes_of(page), AGENT_MAP_SHARED);
}

void mapped_event_close(struct mapped_event *event, bool ours)
{
    const uintptr_t page = __atomic_exchange_n(&event->page, 0, __ATOMIC_RELAXED);
    if (page)
        forget_page(page, ours);
    if (event->descriptor >= 0)
        close_raw(event->descriptor);
    event->descriptor = -1;
}

// Its thread may be reading the ring: the event goes, and its address stays readable. That page is
// never unmapped again; few programs have their clock taken away.
static void leave_zeroes(uintptr_t page)
{
    mmap(page_of(page), bytes_of(page), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void mapped_event_take_away(struct mapped_event *event)
{
    // The one that takes the page unmaps it: its thread may be closing the event at this moment.
    const uintptr_t page = __atomic_exchange_n(&event->page, 0, __ATOMIC_RELAXED);
    if (page & WITH_RING)
        leave_zeroes(page);
    else if (page)
        forget_page(page, true);
}
