// SPDX-License-Identifier: MIT
#include "outside/rings.h"
#include "outside/records.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define ALL_BYTES (UINT64_C(64) << 20) // of all rings together, at most
#define LARGEST (UINT64_C(8) << 20)    // of one
#define SMALLEST (UINT64_C(128) << 10)
#define LARGE (UINT64_C(2) << 20)
#define STACK_BYTES 32768      // of a sample, where rings are large
#define SMALL_STACK_BYTES 8192 // and elsewhere
#define WORD sizeof(uint64_t)

struct ring_of_cpu {
    int event; // that the ring belongs to; -1: none yet
    struct perf_event_mmap_page *page;
    uint64_t at, end; // of what is being read
};

struct rings {
    struct rings_options options;
    struct ring_of_cpu *cpus;
    struct pollfd *polled;
    unsigned cpu_count;
    uint64_t bytes; // of a ring; 0: not known yet
    uint32_t stack_bytes;
    uint64_t until_ns;
    int *events; // those without a ring of their own
    size_t event_count, event_room;
    uint64_t record[RECORD_MOST / WORD]; // one that lies at both ends of a ring
};

struct rings *rings_new(const struct rings_options *options)
{
    struct rings *rings = calloc(1, sizeof *rings);
    const long cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (!rings)
        return NULL;
    rings->options = *options;
    rings->cpu_count = cpus > 0 ? (unsigned)cpus : 1;
    rings->cpus = calloc(rings->cpu_count, sizeof *rings->cpus);
    rings->polled = calloc(rings->cpu_count, sizeof *rings->polled);
    if (!rings->cpus || !rings->polled) {
        rings->cpu_count = 0;
        rings_free(rings);
        return NULL;
    }
    for (unsigned i = 0; i < rings->cpu_count; i++)
        rings->cpus[i].event = -1;
    return rings;
}

static void close_rings(struct rings *rings)
{
    for (unsigned i = 0; i < rings->cpu_count; i++) {
        struct ring_of_cpu *cpu = &rings->cpus[i];
        if (cpu->page)
            munmap(cpu->page, PAGE + rings->bytes);
        if (cpu->event >= 0)
            close(cpu->event);
        *cpu = (struct ring_of_cpu){.event = -1};
    }
}

void rings_free(struct rings *rings)
{
    for (size_t i = 0; i < rings->event_count; i++)
        close(rings->events[i]);
    close_rings(rings);
    free(rings->events);
    free(rings->cpus);
    free(rings->polled);
    free(rings);
}

static int open_event(const struct rings *rings, pid_t thread, unsigned cpu, enum rings_from from)
{
    const bool all = thread == RINGS_ALL_PROCESSES;
    struct perf_event_attr attributes = {
        .size = sizeof attributes,
        .type = PERF_TYPE_SOFTWARE,
        .config = all ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = rings->options.period_ns,
        .disabled = 1,
        .enable_on_exec = from == RINGS_FROM_EXEC,
        .inherit = !all,
        .inherit_thread = !all && rings->options.only_threads,
        .exclude_idle = 1,
        .exclude_kernel = !rings->options.kernel,
        .exclude_hv = 1,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)(rings->bytes / 4),
    };
    records_ask(&attributes, rings->stack_bytes);
    const int event =
        (int)syscall(SYS_perf_event_open, &attributes, thread, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return event < 0 ? -errno : event;
}

static int map_ring(struct rings *rings, struct ring_of_cpu *cpu, int event)
{
    void *page = mmap(NULL, PAGE + rings->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
    if (page == MAP_FAILED)
        return -errno;
    cpu->page = page;
    cpu->event = event;
    return 0;
}

static int keep(struct rings *rings, int event)
{
    if (rings->event_count == rings->event_room) {
        const size_t room = 2 * rings->event_room + 64;
        int *events = realloc(rings->events, room * sizeof *events);
        if (!events)
            return -ENOMEM;
        rings->events = events;
        rings->event_room = room;
    }
    rings->events[rings->event_count++] = event;
    return 0;
}

static int join_ring(struct rings *rings, const struct ring_of_cpu *cpu, int event)
{
    return ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, cpu->event) ? -errno : keep(rings, event);
}

static int add_on_cpu(struct rings *rings, pid_t thread, unsigned index, enum rings_from from)
{
    struct ring_of_cpu *cpu = &rings->cpus[index];
    const int event = open_event(rings, thread, index, from);
    if (event < 0)
        return event == -ENODEV ? 0 : event; // the processor is switched off
    int error = cpu->page ? join_ring(rings, cpu, event) : map_ring(rings, cpu, event);
    if (error) {
        close(event);
        return error;
    }
    return from == RINGS_NOW && ioctl(event, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

static int add_everywhere(struct rings *rings, pid_t thread, enum rings_from from)
{
    int error = 0;
    for (unsigned i = 0; i < rings->cpu_count && !error; i++)
        error = add_on_cpu(rings, thread, i, from);
    return error;
}

// Each event on each processor takes a descriptor.
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max, limit.rlim_max});
}

// The kernel bounds the memory of rings of users without rights (kernel.perf_event_mlock_kb).
static int add_first(struct rings *rings, pid_t thread, enum rings_from from)
{
    uint64_t bytes = LARGEST;
    while (bytes > SMALLEST && bytes * rings->cpu_count > ALL_BYTES)
        bytes /= 2;
    int error = -EPERM;
    raise_file_limit();
    for (; bytes >= SMALLEST && (error == -EPERM || error == -ENOMEM); bytes /= 2) {
        rings->bytes = bytes;
        rings->stack_bytes = bytes >= LARGE ? STACK_BYTES : SMALL_STACK_BYTES;
        error = add_everywhere(rings, thread, from);
        if (error)
            close_rings(rings);
    }
    if (error)
        rings->bytes = 0;
    return error;
}

int rings_add(struct rings *rings, pid_t thread, enum rings_from from)
{
    if (rings->bytes)
        return add_everywhere(rings, thread, from);
    int error = add_first(rings, thread, from);
    if ((error == -EACCES || error == -EPERM) && rings->options.kernel) {
        rings->options.kernel = false;
        error = add_first(rings, thread, from);
    }
    return error;
}

uint32_t rings_stack_bytes(const struct rings *rings)
{
    return rings->stack_bytes;
}

bool rings_see_kernel(const struct rings *rings)
{
    return rings->options.kernel;
}

struct pollfd *rings_poll(struct rings *rings, unsigned *count)
{
    *count = 0;
    for (unsigned i = 0; i < rings->cpu_count; i++)
        if (rings->cpus[i].page)
            rings->polled[(*count)++] =
                (struct pollfd){.fd = rings->cpus[i].event, .events = POLLIN};
    return rings->polled;
}

void rings_begin(struct rings *rings, uint64_t until_ns)
{
    rings->until_ns = until_ns;
    for (unsigned i = 0; i < rings->cpu_count; i++) {
        struct ring_of_cpu *cpu = &rings->cpus[i];
        if (!cpu->page)
            continue;
        cpu->at = cpu->page->data_tail;
        // Acquire: the kernel has written what lies before.
        cpu->end = __atomic_load_n(&cpu->page->data_head, __ATOMIC_ACQUIRE);
    }
}

static uint64_t word_at(const struct rings *rings, const struct ring_of_cpu *cpu, uint64_t at)
{
    const char *data = (const char *)cpu->page + PAGE;
    return *(const volatile uint64_t *)(data + (at & (rings->bytes - 1)));
}

// The length of the next record; 0: there is none. A damaged ring is empty.
static size_t next_bytes(const struct rings *rings, struct ring_of_cpu *cpu)
{
    if (cpu->at >= cpu->end)
        return 0;
    const size_t bytes = word_at(rings, cpu, cpu->at) >> 48;
    if (bytes >= RECORD_HEAD && bytes % WORD == 0 && bytes <= cpu->end - cpu->at)
        return bytes;
    cpu->at = cpu->end;
    return 0;
}

static uint64_t next_time(const struct rings *rings, const struct ring_of_cpu *cpu, size_t bytes)
{
    const bool is_sample = (uint32_t)word_at(rings, cpu, cpu->at) == PERF_RECORD_SAMPLE;
    return word_at(rings, cpu, cpu->at + (is_sample ? RECORD_SAMPLE_TIME : bytes - WORD));
}

static const void *take(struct rings *rings, struct ring_of_cpu *cpu, size_t bytes)
{
    const char *data = (const char *)cpu->page + PAGE;
    const size_t offset = cpu->at & (rings->bytes - 1);
    cpu->at += bytes;
    if (offset + bytes <= rings->bytes)
        return data + offset;
    const size_t first = rings->bytes - offset;
    memcpy(rings->record, data + offset, first);
    memcpy((char *)rings->record + first, data, bytes - first);
    return rings->record;
}

const void *rings_next(struct rings *rings, size_t *bytes)
{
    struct ring_of_cpu *earliest = NULL;
    uint64_t earliest_ns = 0;
    for (unsigned i = 0; i < rings->cpu_count; i++) {
        struct ring_of_cpu *cpu = &rings->cpus[i];
        const size_t found = next_bytes(rings, cpu);
        const uint64_t time_ns = found ? next_time(rings, cpu, found) : 0;
        if (!found || time_ns > rings->until_ns || (earliest && time_ns >= earliest_ns))
            continue;
        earliest = cpu;
        earliest_ns = time_ns;
        *bytes = found;
    }
    return earliest ? take(rings, earliest, *bytes) : NULL;
}

void rings_finish(struct rings *rings)
{
    for (unsigned i = 0; i < rings->cpu_count; i++)
        if (rings->cpus[i].page)
            // Release: it was read before the kernel writes there again.
            __atomic_store_n(&rings->cpus[i].page->data_tail, rings->cpus[i].at, __ATOMIC_RELEASE);
}
