// SPDX-License-Identifier: MIT
#include "agent/thread/existing_threads.h"
#include "agent/session/real.h"
#include "base/gc_hidden.h"
#include "base/lock.h"
#include "base/system/agent_map.h"
#include "base/system/signal_mask.h"
#include "loadmap/loadmap.h"
#include "loadmap/maps.h"
#include "track/walk/program_frames.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The threads that have a clock and are not met yet, or are. Written before their clocks go.
static struct meeting {
    pid_t id;
    struct thread *thread;
} * meetings;
static size_t meeting_count, meeting_bytes;

static unsigned libc_module; // where the outermost frames of threads lie

// The working memory is too large for the stack of a handler.
static struct maps_lines lines GC_HIDDEN;
static struct lock lines_lock;

struct stack_search {
    uintptr_t address;
    struct unwind_bounds found;
};

static void look_at_mapping(void *context, const struct maps_mapping *mapping)
{
    struct stack_search *search = context;
    if (mapping->start <= search->address && search->address < mapping->end)
        search->found = (struct unwind_bounds){mapping->start, search->address};
}

// The descriptor of a thread lies at the top of its stack.
static struct unwind_bounds stack_of_self(pid_t id)
{
    struct stack_search search = {.address = (uintptr_t)pthread_self()};
    if (id == agent.pid)
        return thread_main_stack();
    if (lock_take(&lines_lock))
        return search.found;
    maps_visit(&lines, look_at_mapping, &search);
    lock_release(&lines_lock);
    return search.found;
}

// The outermost function of the thread that is not libc's: what it was created for. 0: not known.
static uintptr_t start_of(struct unwind_cursor *cursor)
{
    struct program_frames frames;
    struct program_frame frame;
    uintptr_t start = 0;
    program_frames_begin_at(&frames, cursor);
    while (program_frames_next(&frames, &frame))
        if (place_module(frame.function) != libc_module)
            start = frame.begin;
    return frames.verdict == VERDICT_COMPLETE ? start : 0;
}

// Where a thread is seen: interrupted, or at a call of a function of ours. Neither: not known.
struct sighting {
    const void *ucontext;
    const struct caller_registers *caller;
};

static uintptr_t start_of_seen(const struct sighting *seen, struct unwind_bounds stack)
{
    struct unwind_cursor cursor;
    const struct caller_registers *caller = seen->caller;
    if (!seen->ucontext && !caller)
        return 0;
    loadmap_enter();
    if (seen->ucontext)
        unwind_start(&cursor, seen->ucontext, stack);
    else
        unwind_start_here(&cursor, caller, stack);
    const uintptr_t start = start_of(&cursor);
    loadmap_leave();
    return start;
}

static struct thread *find(pid_t id)
{
    for (size_t i = 0; i < meeting_count; i++)
        if (meetings[i].id == id)
            return meetings[i].thread;
    return NULL;
}

// Gives it what begins with a thread elsewhere. Its time counts from when its clock was opened.
static struct thread *introduce(struct thread *thread, const struct sighting *seen)
{
    const uint64_t last = thread->last, wall = thread->wall;
    thread->handle = pthread_self();
    thread->stack = stack_of_self(thread->id);
    thread->start = NULL;
    if (thread->id != agent.pid)
        thread->start = (void *(*)(void *))start_of_seen(seen, thread->stack);
    thread_self = thread;
    return thread_equip_late(thread, last, wall) ? NULL : thread;
}

struct thread *thread_begin_existing(const void *ucontext)
{
    if (!agent.attached || atomic_load(&agent.left))
        return NULL;
    struct thread *thread = find((pid_t)syscall(SYS_gettid));
    return thread && !atomic_load_explicit(&thread->begun, memory_order_relaxed)
               ? introduce(thread, &(struct sighting){.ucontext = ucontext})
               : NULL;
}

void thread_begin_existing_here(const struct caller_registers *caller)
{
    // A record of an earlier recording is not begun.
    if (!agent.attached || atomic_load(&agent.left) ||
        (thread_current && atomic_load_explicit(&thread_current->begun, memory_order_relaxed)))
        return;
    const uint64_t all = UINT64_MAX;
    uint64_t before;
    signal_mask_change(SIG_SETMASK, &all, &before);
    struct thread *thread = find((pid_t)syscall(SYS_gettid));
    if (thread && !atomic_load_explicit(&thread->begun, memory_order_relaxed))
        introduce(thread, &(struct sighting){.caller = caller});
    signal_mask_release(&before);
}

static void read_name(pid_t id, char *name, size_t bytes)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, name, bytes - 1);
    name[length > 0 ? length - 1 : 0] = 0;
    if (file >= 0)
        close(file);
}

// Another name than that of the process is one that the program has given.
static void take_name(struct thread *thread)
{
    char name[THREAD_NAME_BYTES], main[THREAD_NAME_BYTES];
    read_name(thread->id, name, sizeof name);
    read_name(agent.pid, main, sizeof main);
    if (strcmp(name, main))
        thread_set_name(thread, name);
}

// A thread that an earlier recording has known still has that record, which its own variables lead
// to.
static struct thread *record_of(pid_t id)
{
    struct thread *thread = thread_list_find(id);
    if (thread && thread->recording == agent.recording)
        return NULL; // it began a moment ago, by itself
    if (thread) {
        thread_renew(thread);
    } else if ((thread = thread_take())) {
        thread->id = id;
        thread->recording = agent.recording;
        thread_list_add(thread);
    }
    return thread;
}

static int begin_clock(pid_t id)
{
    struct thread *thread = record_of(id);
    if (!thread)
        return 0;
    take_name(thread);
    meetings[meeting_count] = (struct meeting){id, thread};
    // Release: a tick that finds the number finds the rest.
    __atomic_store_n(&meeting_count, meeting_count + 1, __ATOMIC_RELEASE);
    const int error = thread_open_clock(thread);
    const bool is_forbidden = error == -EACCES || error == -EPERM;
    return is_forbidden && live_has(&agent.session->options, LIVE_EVENT_WALL) ? -ENOTSUP : 0;
}

static size_t count_threads(DIR *folder)
{
    size_t count = 0;
    while (readdir(folder))
        count++;
    rewinddir(folder);
    return count;
}

int thread_list_meet_all(pid_t of_tool)
{
    DIR *folder = opendir("/proc/self/task");
    int error = 0;
    if (!folder)
        return 0;
    libc_module = place_module(loadmap_place((uintptr_t)REAL(pthread_create)));
    const size_t most = 2 * count_threads(folder) + 64;
    meeting_count = 0;
    if (meetings)
        agent_unmap(meetings, meeting_bytes);
    meeting_bytes = most * sizeof *meetings;
    meetings = agent_map(meeting_bytes);
    thread_list_forget_dead();
    for (struct dirent *entry;
         meetings && !error && meeting_count < most && (entry = readdir(folder));) {
        const pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && id != of_tool)
            error = begin_clock(id);
    }
    closedir(folder);
    return error;
}

static void pause_briefly(void)
{
    // Not nanosleep(): the call that this thread was taken out of may have to go on with its own.
    static const struct timespec moment = {.tv_nsec = 1000000};
    syscall(SYS_ppoll, NULL, 0, &moment, NULL, 0);
}

#define HANDLER_MOST_MS 1000

// No handler of ours is at work in it, nor the marker's stub, nor an event.
static void wait_for_handler(struct thread *thread)
{
    for (int i = 0; i < HANDLER_MOST_MS; i++) {
        if (!atomic_load(&thread->sampling) && !atomic_load(&thread->events) &&
            !thread->tracked.walker.in_stub)
            return;
        pause_briefly();
    }
}

static struct {
    int32_t *ids;
    unsigned room, count;
} ticked;

// A tick that came while the kernel was at work for a thread may wait until it returns from there.
// One that has not run for a period has had none.
static void note_ticked(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    const bool begun = atomic_load_explicit(&thread->begun, memory_order_relaxed),
               is_cpu = options->event == LIVE_EVENT_CPU;
    if (thread->asked || !thread_needs_clock(options))
        return; // it has closed its clock itself, or has had none
    if (!begun && is_cpu && clock_cpu_of(thread->id) - thread->last < options->period_ns / 2)
        return;
    if (ticked.count < ticked.room)
        ticked.ids[ticked.count] = thread->id;
    ticked.count++;
}

// Handlers are at rest. Waiting counts up to now, where the thread was seen last.
static void settle_wall(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    const uint64_t now = clock_now(LIVE_EVENT_WALL);
    if (!atomic_load_explicit(&thread->begun, memory_order_relaxed) || !thread->record)
        return;
    if (options->event == LIVE_EVENT_WALL && (int64_t)(now - thread->last) > 0)
        thread_settle(thread->record, thread->last_node, now - thread->last);
    thread_charge_wall(thread->record, thread->last_node, now - thread->wall, now);
}

static void stop_handlers(void)
{
    // Sequentially consistent: either a handler sees it, or is seen by wait_for_handler().
    atomic_store(&agent.left, 1);
    pause_briefly();
    for (int i = 0; i < HANDLER_MOST_MS && atomic_load(&agent.visitors); i++)
        pause_briefly();
    thread_list_each(wait_for_handler);
}

unsigned thread_list_leave(int32_t *ids, unsigned room)
{
    stop_handlers();
    thread_list_each(thread_close_clock);
    ticked.ids = ids, ticked.room = room, ticked.count = 0;
    thread_list_each(note_ticked);
    thread_settle_living();
    thread_list_each(settle_wall);
    thread_list_each(thread_abandon);
    thread_end_stop();
    return ticked.count;
}
