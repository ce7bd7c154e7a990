// SPDX-License-Identifier: MIT
#include "event/counter.h"
#include "base/now.h"
#include "event/counter_attributes.h"
#include "event/tick.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_TRIES 16 // the kernel changes the page only while the thread is off the processor

static int open_one(const struct live_counter *counter, unsigned index, pid_t thread)
{
    struct perf_event_attr attributes;
    counter_attributes(counter, &attributes);
    attributes.sig_data = COUNTER_COOKIE + index;
    ring_ask_count(&attributes);
    return mapped_event_open(thread, &attributes);
}

static int open_offcpu(struct counters *counters, pid_t thread)
{
    const int error = offcpu_open(&counters->offcpu, thread);
    counters->has_offcpu = !error;
    return error ? error : mapped_event_ring(&counters->offcpu.event) ? 0 : -ENOMEM;
}

int counters_open(struct counters *counters, pid_t thread, const struct live_options *options)
{
    *counters = (struct counters){.process = now_process()};
    const int error = live_has(options, LIVE_EVENT_OFFCPU) ? open_offcpu(counters, thread) : 0;
    if (error) {
        counters_close(counters);
        return error;
    }
    for (unsigned i = 0; i < options->counter_count && i < LIVE_COUNTERS; i++) {
        struct counter *counter = &counters->each[i];
        const int fd = open_one(&options->counters[i], i, thread);
        if (fd >= 0) {
            counters->count++;
            mapped_event_keep(&counter->event, fd, MAPPED_WITH_RING);
        }
        if (fd >= 0 && mapped_event_ring(&counter->event))
            continue;
        counters_close(counters);
        return fd < 0 ? fd : -ENOMEM;
    }
    return 0;
}

// The kernel counts some things of the calling thread without an event.
static uint64_t usage_now(enum live_rest rest)
{
    struct rusage usage;
    if (rest == LIVE_REST_PAGE)
        return 0;
    if (rest == LIVE_REST_CPU)
        return now_ns(CLOCK_THREAD_CPUTIME_ID);
    memset(&usage, 0, sizeof usage);
    if (syscall(SYS_getrusage, RUSAGE_THREAD, &usage))
        return 0;
    switch (rest) {
    case LIVE_REST_FAULTS:
        return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
    case LIVE_REST_MINOR_FAULTS:
        return (uint64_t)usage.ru_minflt;
    case LIVE_REST_MAJOR_FAULTS:
        return (uint64_t)usage.ru_majflt;
    default:
        return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
    }
}

void counters_go(struct counters *counters, const struct live_options *options)
{
    if (counters->has_offcpu)
        mapped_event_start(&counters->offcpu.event);
    for (unsigned i = 0; i < counters->count; i++) {
        counters->each[i].usage = usage_now(options->counters[i].rest);
        mapped_event_start(&counters->each[i].event);
    }
}

void counters_close(struct counters *counters)
{
    const bool ours = counters->process == now_process();
    for (unsigned i = 0; i < counters->count; i++)
        mapped_event_close(&counters->each[i].event, ours);
    counters->count = 0;
    if (counters->has_offcpu)
        mapped_event_close(&counters->offcpu.event, ours);
    counters->has_offcpu = false;
}

void counters_take_away(struct counters *counters)
{
    for (unsigned i = 0; i < counters->count; i++)
        mapped_event_take_away(&counters->each[i].event);
    if (counters->has_offcpu)
        mapped_event_take_away(&counters->offcpu.event);
}

bool counter_tick_is_offcpu(int signal, const siginfo_t *info)
{
    return signal == SIGTRAP && tick_cookie(info) == OFFCPU_COOKIE;
}

int counter_of_tick(int signal, const siginfo_t *info)
{
    const uint64_t index = signal == SIGTRAP ? tick_cookie(info) - COUNTER_COOKIE : LIVE_COUNTERS;
    return index < LIVE_COUNTERS ? (int)index : -1;
}

// Where counters of the processor take turns, the kernel says for how much of the time one has
// counted.
static uint64_t scaled(uint64_t count, uint64_t enabled, uint64_t running)
{
    if (running == 0 || running >= enabled || enabled >> 47)
        return count;
    return count * ((enabled << 16) / running) >> 16;
}

uint64_t counter_news(struct counters *counters, unsigned index)
{
    struct counter *counter = &counters->each[index];
    void *page = index < counters->count ? mapped_event_ring(&counter->event) : NULL;
    struct ring_count newest;
    if (page && ring_newest_count(page, &newest) && newest.count > counter->newest.count)
        counter->newest = newest;
    return scaled(counter->newest.count - counter->taken.count,
                  counter->newest.enabled - counter->taken.enabled,
                  counter->newest.running - counter->taken.running);
}

void counter_take(struct counters *counters, unsigned index)
{
    counters->each[index].charged += counter_news(counters, index);
    counters->each[index].taken = counters->each[index].newest;
}

#ifdef __x86_64__
static uint64_t read_processor(unsigned counter)
{
    uint32_t low, high;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
    return (uint64_t)high << 32 | low;
}
#else
static uint64_t read_processor(unsigned counter)
{
    (void)counter;
    return 0;
}
#endif

// A signed number of so many bits.
static uint64_t extended(uint64_t value, unsigned bits)
{
    const uint64_t sign = UINT64_C(1) << (bits - 1), low = value & (sign * 2 - 1);
    return (low ^ sign) - sign;
}

// The count by the event's page: up to date for counters of the processor that a program may read,
// else from when the thread came to the processor. The kernel describes this reading.
static uint64_t count_of_page(const volatile struct perf_event_mmap_page *page)
{
    for (int i = 0; i < PAGE_TRIES; i++) {
        const uint32_t sequence = page->lock;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        const uint32_t index = page->index;
        const unsigned width = page->pmc_width;
        uint64_t count = (uint64_t)page->offset;
        if (page->cap_user_rdpmc && index && width && width < 64)
            count += extended(read_processor(index - 1), width);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (page->lock == sequence)
            return count;
    }
    return 0;
}

// The rest, which no record tells.
static uint64_t beyond_records(const struct counter *counter, enum live_rest kind)
{
    const void *page = mapped_event_ring(&counter->event);
    const uint64_t known = kind == LIVE_REST_PAGE ? counter->taken.count : counter->charged,
                   count = kind != LIVE_REST_PAGE ? usage_now(kind) - counter->usage
                           : page                 ? count_of_page(page)
                                                  : 0;
    return count > known ? count - known : 0;
}

uint64_t counter_rest(struct counters *counters, unsigned index, const struct live_options *options)
{
    struct counter *counter = &counters->each[index];
    const uint64_t news = counter_news(counters, index);
    counter_take(counters, index);
    const uint64_t rest = beyond_records(counter, options->counters[index].rest);
    counter->charged += rest;
    counter->taken.count += rest;
    counter->newest.count = counter->taken.count;
    return news + rest;
}
