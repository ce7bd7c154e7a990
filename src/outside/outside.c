// SPDX-License-Identifier: MIT
#include "outside/outside.h"
#include "base/now.h"
#include "outside/processes.h"
#include "outside/rings.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100        // at the latest
#define SETTLED_NS 1000000 // records of that age are in their rings
#define MOST_RINGS 1024
#define EVER UINT64_MAX
#define KERNEL_THREADS 2 // kthreadd, which has made them all

struct outside {
    struct outside_options options;
    struct rings *rings;
    struct foreign_processes processes;
    struct foreign_path path;
    pthread_mutex_t mutex; // holds all of this together, but the stop
    pthread_t reader;
    int stop;        // a descriptor that can be read when the reader is to end
    bool everything; // the whole machine is sampled
    uint64_t lost;   // samples that found no room, and are not counted in a tree yet
};

static bool is_recording(const struct outside *outside)
{
    return atomic_load_explicit(&outside->options.memory.session->recording, memory_order_relaxed);
}

// The CPU time of a process; 0: it is gone.
static uint64_t cpu_of(uint32_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid((pid_t)pid, &clock) ? 0 : now_ns(clock);
}

// Of a reading: how many samples each process has, before they are weighed.
static void count_samples(struct outside *outside)
{
    const void *bytes;
    size_t size;
    while ((bytes = rings_next(outside->rings, &size))) {
        uint32_t type, pid;
        memcpy(&type, bytes, sizeof type);
        if (type != RECORD_TYPE_SAMPLE || size < RECORD_SAMPLE_LEAST)
            continue;
        memcpy(&pid, (const char *)bytes + RECORD_SAMPLE_PID, sizeof pid);
        struct foreign_process *process =
            pid || !outside->everything ? processes_get(&outside->processes, pid) : NULL;
        if (process)
            process->samples++;
    }
}

static void weigh(void *context, struct foreign_process *process)
{
    const struct outside *outside = context;
    const uint64_t period = outside->options.period_ns;
    process->weight_ns = period;
    if (!is_recording(outside)) {
        process->has_base = false;
        process->samples = 0;
        return;
    }
    if (!process->samples)
        return;
    const uint64_t now = cpu_of(process->pid);
    if (process->has_base && now > process->charged_ns)
        process->weight_ns = (now - process->charged_ns) / process->samples;
    process->has_base = now != 0;
    process->charged_ns = now;
    process->samples = 0;
}

static void learn(struct foreign_process *process, const struct perf_record *sample)
{
    if (process->is_known)
        return;
    process->is_known = true;
    space_read(&process->space, (pid_t)process->pid);
    process->is_kernel = sample->has_registers == RECORD_NO_REGISTERS && process->space.count == 0;
}

// The process whose slice it goes to: threads of the kernel have one together, that of their
// parent. NULL: none.
static struct foreign_process *owner_of(struct outside *outside, struct foreign_process *process)
{
    struct foreign_process *owner =
        process->is_kernel ? processes_get(&outside->processes, KERNEL_THREADS) : process;
    const bool is_open =
        owner && (owner->slice.process ||
                  process_open(owner, &outside->options.memory, !rings_see_kernel(outside->rings)));
    return is_open ? owner : NULL;
}

static void take_sample(struct outside *outside, const struct perf_record *sample)
{
    struct foreign_path *path = &outside->path;
    struct foreign_thread *thread =
        processes_get_thread(&outside->processes, sample->pid, sample->tid);
    struct foreign_process *process = thread ? thread->process : NULL;
    if (!process || !is_recording(outside) || process->is_waiting)
        return;
    learn(process, sample);
    struct foreign_process *owner = owner_of(outside, process);
    if (!owner)
        return;
    foreign_walk(path, sample, &process->space,
                 outside->options.kernel ? FOREIGN_WITH_KERNEL : FOREIGN_WITHOUT_KERNEL);
    struct live_thread *tree = thread_tree(thread, owner, &outside->options.memory, path);
    if (!path->count || !tree) {
        outside->lost++;
        return;
    }
    slice_charge(&owner->slice, tree, path, process->weight_ns);
    if (owner == process)
        process->last = tree;
    tree->stats.lost += outside->lost;
    outside->lost = 0;
}

static void take_mapping(struct outside *outside, const struct perf_record *record)
{
    struct foreign_process *process = processes_find(&outside->processes, record->pid);
    if (!process || !process->is_known)
        return;
    const struct mirrored_file file = {
        .pid = (pid_t)record->pid,
        .start = record->start,
        .end = record->start + record->bytes,
        .device = makedev(record->device_major, record->device_minor),
        .inode = record->inode,
        .path = record->path,
    };
    space_map(&process->space, &file, record->offset);
    const struct space_mapping *mapping = space_find(&process->space, record->start);
    if (process->slice.process && mapping && mapping->mirror)
        slice_publish(&process->slice, mapping->mirror,
                      mapping->mirror->ref.start - mapping->shift);
}

static void take_name(struct outside *outside, const struct perf_record *record)
{
    struct foreign_thread *thread =
        processes_find(&outside->processes, record->pid) || outside->everything
            ? processes_get_thread(&outside->processes, record->pid, record->tid)
            : NULL;
    if (!thread)
        return;
    if (record->is_exec) {
        processes_exec(&outside->processes, thread->process, record->name);
    } else if (record->pid != record->tid) {
        memcpy(thread->name, record->name, sizeof thread->name);
        thread->record = NULL; // it has another tree from now on
    }
}

static void take_fork(struct outside *outside, const struct perf_record *record)
{
    struct foreign_process *parent = processes_find(&outside->processes, record->parent_pid);
    struct foreign_thread *thread =
        parent || outside->everything
            ? processes_get_thread(&outside->processes, record->pid, record->tid)
            : NULL;
    struct foreign_process *child = thread ? thread->process : NULL;
    if (!child || child == parent)
        return;
    child->parent_pid = record->parent_pid;
    child->has_base = true;
    child->charged_ns = 0;
    if (!parent)
        return;
    child->forked = true;
    child->is_known = parent->is_known;
    child->is_waiting = parent->is_waiting;
    memcpy(child->name, parent->name, sizeof child->name);
    space_copy(&child->space, &parent->space);
}

static void take_exit(struct outside *outside, const struct perf_record *record)
{
    struct foreign_process *process = processes_find(&outside->processes, record->pid);
    if (!process)
        return;
    // The time since the last sample of a process that is not waited for yet.
    const uint64_t now = process->threads == 1 && process->has_base ? cpu_of(record->pid) : 0;
    if (now > process->charged_ns && process->last && is_recording(outside))
        slice_settle(&process->slice, process->last, now - process->charged_ns);
    processes_end_thread(&outside->processes, record->pid, record->tid);
}

static void take_loss(struct outside *outside, const struct perf_record *record)
{
    outside->lost += record->lost;
}

static void take_nothing(struct outside *outside, const struct perf_record *record)
{
    (void)outside;
    (void)record;
}

static void take_records(struct outside *outside)
{
    static void (*const take[])(struct outside * outside, const struct perf_record *record) = {
        [RECORD_OTHER] = take_nothing, [RECORD_SAMPLE] = take_sample, [RECORD_MAP] = take_mapping,
        [RECORD_NAME] = take_name,     [RECORD_FORK] = take_fork,     [RECORD_EXIT] = take_exit,
        [RECORD_LOST] = take_loss,
    };
    struct perf_record record;
    const void *bytes;
    size_t size;
    while ((bytes = rings_next(outside->rings, &size)))
        if (record_read(&record, bytes, size) && (record.pid || !outside->everything))
            take[record.kind](outside, &record);
}

static void read_until(struct outside *outside, uint64_t until_ns)
{
    pthread_mutex_lock(&outside->mutex);
    rings_begin(outside->rings, until_ns);
    count_samples(outside);
    processes_visit(&outside->processes, weigh, outside);
    rings_begin(outside->rings, until_ns);
    take_records(outside);
    rings_finish(outside->rings);
    pthread_mutex_unlock(&outside->mutex);
}

void outside_read(struct outside *outside)
{
    read_until(outside, EVER);
}

static void *read_on(void *context)
{
    struct outside *outside = context;
    struct pollfd polled[MOST_RINGS + 1];
    bool stop = false;
    while (!stop) {
        unsigned count;
        pthread_mutex_lock(&outside->mutex);
        const struct pollfd *rings = rings_poll(outside->rings, &count);
        if (count > MOST_RINGS)
            count = MOST_RINGS;
        memcpy(polled, rings, count * sizeof *polled);
        pthread_mutex_unlock(&outside->mutex);
        polled[count] = (struct pollfd){.fd = outside->stop, .events = POLLIN};
        poll(polled, count + 1, LOOK_MS);
        stop = polled[count].revents;
        for (unsigned i = 0; i < count; i++)
            if (polled[i].revents & POLLHUP) { // all that it stands for has ended
                struct timespec pause = {.tv_nsec = 10000000};
                nanosleep(&pause, NULL);
                break;
            }
        read_until(outside, now_ns(CLOCK_MONOTONIC) - SETTLED_NS);
    }
    return NULL;
}

struct outside *outside_open(const struct outside_options *options)
{
    struct outside *outside = calloc(1, sizeof *outside);
    if (!outside)
        return NULL;
    outside->options = *options;
    outside->rings = rings_new(&(struct rings_options){
        .period_ns = options->period_ns, .kernel = true, .only_threads = !options->follow_fork});
    outside->stop = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&outside->mutex, NULL);
    if (outside->rings && outside->stop >= 0 &&
        !pthread_create(&outside->reader, NULL, read_on, outside))
        return outside;
    if (outside->rings)
        rings_free(outside->rings);
    if (outside->stop >= 0)
        close(outside->stop);
    free(outside);
    return NULL;
}

// The samples that were lost after the last one that was taken.
static void tell_lost(void *context, struct foreign_process *process)
{
    struct outside *outside = context;
    if (!process->last)
        return;
    process->last->stats.lost += outside->lost;
    outside->lost = 0;
}

void outside_close(struct outside *outside)
{
    const uint64_t one = 1;
    if (write(outside->stop, &one, sizeof one) == sizeof one)
        pthread_join(outside->reader, NULL);
    read_until(outside, EVER);
    processes_visit(&outside->processes, tell_lost, outside);
    processes_free(&outside->processes);
    rings_free(outside->rings);
    close(outside->stop);
    free(outside);
}

static int add_threads(struct outside *outside, pid_t pid)
{
    char path[40];
    int error = 0;
    unsigned added = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    if (!folder)
        return -errno;
    for (struct dirent *entry; !error && (entry = readdir(folder));) {
        const pid_t tid = (pid_t)atol(entry->d_name);
        if (tid <= 0 || !processes_get_thread(&outside->processes, (uint32_t)pid, (uint32_t)tid))
            continue;
        error = rings_add(outside->rings, tid, RINGS_NOW);
        if (error == -ESRCH) { // it has ended meanwhile
            processes_end_thread(&outside->processes, (uint32_t)pid, (uint32_t)tid);
            error = 0;
            continue;
        }
        added++;
    }
    closedir(folder);
    return error ? error : added ? 0 : -ESRCH;
}

static int add(struct outside *outside, pid_t pid, enum outside_from from)
{
    struct foreign_process *process = processes_get(&outside->processes, (uint32_t)pid);
    if (!process)
        return -ENOMEM;
    process->charged_ns = cpu_of(process->pid);
    process->has_base = process->charged_ns != 0;
    if (from == OUTSIDE_NOW)
        return add_threads(outside, pid);
    process->is_waiting = true;
    return processes_get_thread(&outside->processes, (uint32_t)pid, (uint32_t)pid)
               ? rings_add(outside->rings, pid, RINGS_FROM_EXEC)
               : -ENOMEM;
}

int outside_add(struct outside *outside, pid_t pid, enum outside_from from)
{
    pthread_mutex_lock(&outside->mutex);
    const int error = add(outside, pid, from);
    pthread_mutex_unlock(&outside->mutex);
    return error;
}

int outside_add_all(struct outside *outside)
{
    pthread_mutex_lock(&outside->mutex);
    outside->everything = true;
    const int error = rings_add(outside->rings, RINGS_ALL_PROCESSES, RINGS_NOW);
    pthread_mutex_unlock(&outside->mutex);
    return error;
}

uint32_t outside_stack_bytes(const struct outside *outside)
{
    return rings_stack_bytes(outside->rings);
}

bool outside_sees_kernel(const struct outside *outside)
{
    return rings_see_kernel(outside->rings);
}

int outside_try(pid_t pid)
{
    struct rings *rings =
        rings_new(&(struct rings_options){.period_ns = 1000000000, .kernel = true});
    if (!rings)
        return -ENOMEM;
    const int error = rings_add(rings, pid, RINGS_FROM_EXEC);
    rings_free(rings);
    return error;
}
