// SPDX-License-Identifier: MIT
#include "agent/thread/thread.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "agent/session/tracer.h"
#include "agent/thread/existing_threads.h"
#include "agent/thread/signal_stack.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "base/system/signal_mask.h"
#include "event/event.h"
#include "loadmap/loadmap.h"
#include "track/context_id/thread_creation.h"
#include "unwind/arch.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORTEST_NS 10000 // to a first tick that is due already: the kernel can do no shorter
#define UNLIMITED_STACK (UINT64_C(64) << 30) // the reach of a stack without a limit

__thread struct thread *thread_current;

// The first thread whose clock opens decides which kind of clock this process has.
static void publish_source(const struct thread_clock *clock)
{
    if (agent.process->source)
        return;
    agent.process->exclude_kernel = clock->exclude_kernel;
    agent.process->source = clock->source;
}

static int open_tracker(struct thread *thread)
{
    const struct tracker_place place = {
        .arena = &agent.arena,
        .tree = thread->record->tree,
        .stats = &thread->record->stats,
        .thread = thread->id,
        .stack = thread->stack,
    };
    return tracker->open(&thread->tracked, &place);
}

static void close_tracker(struct thread *thread)
{
    if (thread == thread_self)
        tracked_adopt(NULL);
    atomic_signal_fence(memory_order_seq_cst);
    tracker->close(&thread->tracked);
}

bool thread_needs_clock(const struct live_options *options)
{
    return event_of(options->event)->by_clock || options->burst_interval_ns ||
           options->calls_window;
}

// The clock that the event counts by, of a thread that may be another one.
static uint64_t event_clock(const struct thread *thread)
{
    const enum live_event event = agent.session->options.event;
    return event != LIVE_EVENT_CPU || thread == thread_self ? clock_now(event)
                                                            : clock_cpu_of(thread->id);
}

// Sets the fields that a handler reads. In the thread itself.
static void adopt(struct thread *thread)
{
    thread_current = thread;
    tracked_adopt(&thread->tracked);
}

struct thread *thread_adopt(const void *ucontext)
{
    struct thread *thread = thread_self;
    // Acquire: the thread that has begun it has written all that the tick needs.
    if (!thread || !atomic_load_explicit(&thread->begun, memory_order_acquire))
        return thread_begin_existing(ucontext);
    adopt(thread);
    return thread;
}

// Gives a thread a tree and a tracker.
static int equip(struct thread *thread)
{
    thread->begun_ns = clock_now(LIVE_EVENT_WALL);
    thread->tracer_ns = agent.traced ? 0 : thread->begun_ns + TRACER_SOON_NS;
    struct live_thread *record = thread_record(thread);
    if (!record)
        return -ENOSPC;
    atomic_fetch_add_explicit(&agent.process->thread_starts, 1, memory_order_relaxed);
    thread->record = record;
    int error = open_tracker(thread);
    if (error)
        return error;
    // Threads that take turns at one tree are sampled as if they were one: many short ones get
    // their share.
    thread->last = record->pending; // until start_clock() knows the time
    thread->wall = record->pending_wall;
    record->pending = record->pending_wall = 0;
    thread->last_node = record->last_node;
    return 0;
}

static bool has_counters(const struct live_options *options)
{
    return options->counter_count || live_has(options, LIVE_EVENT_OFFCPU);
}

// A thread without counters is profiled all the same.
static void open_counters(struct thread *thread)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const pid_t number = thread == thread_self ? 0 : thread->id;
    const int error = counters_open(&thread->counters, number, &agent.session->options);
    if (!error || atomic_flag_test_and_set(&told))
        return;
    agent_note(error == -ENOMEM ? "threads had no counters: the limit of locked memory "
                                  "(kernel.perf_event_mlock_kb, ulimit -l) was reached"
                                : "threads had no counters: the kernel refused them, as it does "
                                  "when a program gives up its rights");
}

// Starts to profile a thread. On failure it runs on, unprofiled.
static int begin_thread(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    const uint64_t period = options->period_ns;
    int error = equip(thread);
    if (error)
        return error;
    if (thread == thread_self)
        adopt(thread);
    const uint64_t pending = thread->last;
    uint64_t first = pending + SHORTEST_NS < period ? period - pending : SHORTEST_NS;
    if (options->burst_interval_ns)
        first = tracker->first_tick(&thread->tracked, pending);
    if (thread_needs_clock(options))
        error = thread == thread_self ? clock_open(&thread->clock, options, first)
                                      : clock_open_for(&thread->clock, thread->id, options, first);
    if (!error)
        publish_source(&thread->clock);
    if (!error && has_counters(options))
        open_counters(thread);
    // Release: a tick that finds it finds all of the above.
    atomic_store_explicit(&thread->begun, 1, memory_order_release);
    return error;
}

// The same for a thread that comes when the program may have given up rights that it had at first.
static bool begin_later_thread(struct thread *thread)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const int error = begin_thread(thread);
    if ((error == -EACCES || error == -EPERM) && !atomic_flag_test_and_set(&told))
        agent_note("a program gave up its rights, and threads that began after that were not "
                   "sampled: to see them wait takes kernel.perf_event_paranoid=1, or CAP_PERFMON");
    return error == 0;
}

// The last thing before the program's own code. The thread's time since its clock was at `began`
// belongs to no call path of the program. In a new program image it is the start-up, with a row of
// its own; in another thread (its creation, our set-up) it goes to the root.
static void start_clock(struct thread *thread, uint64_t began, uint64_t *startup)
{
    const struct live_options *options = &agent.session->options;
    counters_go(&thread->counters, options);
    if (!thread_needs_clock(options))
        return;
    const uint64_t now = event_clock(thread);
    const uint64_t before = options->event == LIVE_EVENT_CPU && now > began ? now - began : 0;
    if (startup)
        *startup = before;
    else if (before)
        thread_settle(thread->record, 0, before);
    thread->record->charged = now;
    // Time that earlier owners of the tree left is charged with the next sample.
    thread->last = now - thread->last;
    thread->wall = clock_now(LIVE_EVENT_WALL) - thread->wall;
    thread->switches = (struct switches){0};
    if (event_of(options->event)->by_clock && !agent.silent)
        switches_begin(&thread->switches, now, thread == thread_self);
    clock_go(&thread->clock, options);
}

// The thread could not be begun: it runs on, known but unprofiled.
static void give_up_thread(struct thread *thread)
{
    atomic_store_explicit(&thread->begun, 0, memory_order_relaxed);
    if (thread == thread_self)
        thread_current = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    thread_close_clock(thread);
    close_tracker(thread);
    if (!thread->record)
        return;
    thread->record->pending = thread->last;
    thread->record->pending_wall = thread->wall;
    thread_leave_record(thread);
}

// Ends the profiling of the calling thread.
static void stop_thread(struct thread *thread)
{
    // After this a late signal finds no thread and goes away.
    atomic_store_explicit(&thread->begun, 0, memory_order_relaxed);
    thread_current = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    const enum live_event event = agent.session->options.event;
    const uint64_t end = !event_of(event)->by_clock ? 0 : clock_now(event);
    if (event_of(event)->by_clock)
        thread_count_switches(thread, end);
    thread_settle_counters(thread);
    thread_close_clock(thread);
    if (agent.session->options.burst_interval_ns)
        thread->record->pending = tracker->owed(&thread->tracked);
    if (event_of(event)->by_clock) {
        thread->record->pending = thread_unsettled(thread, end);
        thread->record->pending_wall = clock_now(LIVE_EVENT_WALL) - thread->wall;
        thread->record->last_node = thread->last_node;
        thread_settle(thread->record, 0,
                      clock_now(event) - end); // our own work is no call path of the program
    }
    close_tracker(thread);
    thread_name_record(thread);
    thread_leave_record(thread);
}

void thread_leave(void)
{
    if (atomic_load_explicit(&thread_self->begun, memory_order_acquire))
        stop_thread(thread_self);
    tracker_leave();
}

void thread_retire(bool everybody)
{
    agent.active = false;
    if (everybody)
        thread_list_stop_clocks();
    thread_leave();
}

void thread_end(struct thread *thread)
{
    const bool stays = agent_visit();
    thread_list_remove(thread); // from here on no other thread begins or wakes it
    if (!stays)
        thread_close_clock(thread);
    else if (atomic_load_explicit(&thread->begun, memory_order_acquire))
        stop_thread(thread);
    agent_visit_ends();
    tracker_leave();
    context_id_end_thread();
    signal_stack_close(thread);
    thread_self = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    thread_give(thread);
}

struct unwind_bounds thread_main_stack(void)
{
    extern void *__libc_stack_end; // set by the loader: the stack pointer at the first instruction
    struct rlimit limit;
    // A little of what lies above, the arguments, so that the outermost frame itself is inside.
    uintptr_t high = (uintptr_t)__libc_stack_end + 64;
    uint64_t reach = UNLIMITED_STACK;
    if (!system_limit(RLIMIT_STACK, &limit) && limit.rlim_cur < reach)
        reach = limit.rlim_cur;
    return (struct unwind_bounds){.low = high > reach ? high - reach : 4096, .high = high};
}

// True if a recording runs, and the thread must begin by itself.
static bool know_thread(struct thread *thread, struct unwind_bounds stack)
{
    thread->id = (pid_t)syscall(SYS_gettid);
    thread->stack = stack;
    thread->handle = pthread_self();
    thread->recording = agent.recording;
    thread_self = thread;
    signals_open_thread(thread);
    signal_stack_open(thread);
    return thread_list_add(thread);
}

void thread_enter(struct thread *thread, struct unwind_bounds stack)
{
    const int saved_errno = errno;
    // A cancellation that waits already must strike in the program's code, not in ours.
    int cancellable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    creation_current = thread->creator;
    context_id_begin_thread((uintptr_t)thread->start);
    // One visit for all of it: between two, the recording may end, and another one begin.
    const bool stays = agent_visit();
    const bool profiled = know_thread(thread, stack) && stays && begin_later_thread(thread);
    if (!profiled && stays && agent.active)
        give_up_thread(thread);
    thread_end_expect(thread);
    if (profiled) {
        tracker_enter((uintptr_t)thread->start, stack);
        start_clock(thread, 0, NULL);
    }
    agent_visit_ends();
    pthread_setcancelstate(cancellable, NULL);
    errno = saved_errno;
}

// The thread that loads us: the main one, unless a library brings us in that was opened later.
static struct unwind_bounds loading_stack(void)
{
    pthread_attr_t attributes;
    if ((pid_t)syscall(SYS_gettid) == now_process() ||
        pthread_getattr_np(pthread_self(), &attributes))
        return thread_main_stack();
    void *low = NULL;
    size_t bytes = 0;
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    return (struct unwind_bounds){.low = (uintptr_t)low, .high = (uintptr_t)low + bytes};
}

static void before_fork(void)
{
    thread_begin_existing_here(NULL);
    exec_before_fork();
    trackers_before_fork();
}

// libc does not forget them again.
static void notice_forks(void)
{
    static bool noticed;
    if (!noticed)
        pthread_atfork(before_fork, trackers_after_fork_in_parent, agent_after_fork);
    noticed = true;
}

int thread_arm_attached(void)
{
    notice_forks();
    return thread_end_start();
}

int thread_arm(void)
{
    int error = thread_end_start();
    if (error)
        return error;
    notice_forks();
    struct thread *thread = thread_take();
    if (!thread)
        return -ENOMEM;
    know_thread(thread, loading_stack());
    if (thread->id != now_process())
        thread_end_expect(thread);
    return 0;
}

int thread_start_main(uint64_t began)
{
    struct thread *thread = thread_self;
    int error = begin_thread(thread);
    if (error)
        give_up_thread(thread);
    else
        start_clock(thread, began, &agent.process->startup_ns);
    return error;
}

void thread_begin_late(struct thread *thread)
{
    if (atomic_load_explicit(&thread->begun, memory_order_relaxed))
        return;
    if (!begin_later_thread(thread))
        give_up_thread(thread);
    else
        start_clock(thread, UINT64_MAX, NULL); // its time before is not recorded
}

void thread_renew(struct thread *thread)
{
    close_tracker(thread); // of the last recording
    *thread = (struct thread){.signal_stack = thread->signal_stack,
                              .newer = thread->newer,
                              .older = thread->older,
                              .recording = agent.recording,
                              .id = thread->id};
}

int thread_open_clock(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    thread->wall = clock_now(LIVE_EVENT_WALL);
    thread->last = options->event == LIVE_EVENT_CPU ? clock_cpu_of(thread->id) : thread->wall;
    if (!thread_needs_clock(options))
        return 0;
    const int error = clock_open_for(&thread->clock, thread->id, options, options->period_ns);
    if (error)
        return error;
    publish_source(&thread->clock);
    clock_go(&thread->clock, options);
    return 0;
}

int thread_equip_late(struct thread *thread, uint64_t last, uint64_t wall)
{
    const int error = equip(thread);
    if (error)
        return error;
    thread->record->charged = last;
    thread->last = last - thread->last;
    thread->wall = wall - thread->wall;
    if (event_of(agent.session->options.event)->by_clock)
        switches_begin(&thread->switches, last, true);
    adopt(thread);
    atomic_store_explicit(&thread->begun, 1, memory_order_release);
    return 0;
}

void thread_close_clock(struct thread *thread)
{
    clock_close(&thread->clock);
    counters_close(&thread->counters);
}

// Its frames stay, for the stub may be on its way.
void thread_abandon(struct thread *thread)
{
    atomic_store_explicit(&thread->begun, 0, memory_order_relaxed);
    if (thread->record)
        walk_abandon(&thread->tracked.walker);
    thread->record = NULL;
}

void thread_rest(struct thread *thread)
{
    struct live_options options = agent.session->options;
    options.source = thread->clock.source;
    if (options.source == LIVE_SOURCE_TIMER || !thread_needs_clock(&options))
        return; // a timer cannot be made again in a handler: it ticks on, for nothing
    clock_close(&thread->clock);
    // Sequentially consistent, here and in thread_wake(): one of the two sees the other.
    atomic_store(&thread->idle, 1);
    uint32_t idle = 1;
    if (atomic_load(&agent.paused) || !atomic_compare_exchange_strong(&thread->idle, &idle, 0))
        return;
    if (!clock_open(&thread->clock, &options, options.period_ns))
        clock_go(&thread->clock, &options);
}

void thread_wake(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    uint32_t idle = 1;
    if (!atomic_load_explicit(&thread->begun, memory_order_acquire) ||
        !atomic_compare_exchange_strong(&thread->idle, &idle, 0))
        return;
    // The pause is not charged.
    thread->last = thread->record->charged = event_clock(thread);
    thread->guess.last_wall = 0;
    thread->wall = clock_now(LIVE_EVENT_WALL);
    if (!clock_open_for(&thread->clock, thread->id, options, options->period_ns))
        clock_go(&thread->clock, options);
}

void thread_after_fork(void)
{
    thread_pool_after_fork();
    thread_list_after_fork();
    struct thread *thread = thread_self;
    if (!thread)
        return;
    thread->id = (pid_t)syscall(SYS_gettid);
    thread->creator = creation_current;
    if (!atomic_load_explicit(&thread->begun, memory_order_relaxed))
        return;
    // The parent's clock is not ours. The marker on our copy of the stack goes.
    atomic_store_explicit(&thread->begun, 0, memory_order_relaxed);
    atomic_store_explicit(&thread->idle, 0, memory_order_relaxed);
    thread_close_clock(thread);
    close_tracker(thread);
    thread_current = NULL;
    thread->record = NULL;
    thread->last_node = 0;
    thread->guess.last_wall = 0;
    thread->not_before = 0; // the child's clock begins at nought
    if (agent.active && !begin_later_thread(thread))
        agent.active = false;
    if (agent.active)
        start_clock(thread, 0, NULL);
}

uint64_t thread_charged(void)
{
    return thread_current ? thread_current->last : 0;
}

void thread_reopen_counters(struct thread *thread)
{
    const struct live_options *options = &agent.session->options;
    if (!has_counters(options))
        return;
    open_counters(thread);
    counters_go(&thread->counters, options);
}

void thread_pause_clock(void)
{
    if (!thread_current)
        return;
    thread_settle_counters(thread_current);
    thread_close_clock(thread_current);
}

void thread_resume_clock(void)
{
    const struct live_options *options = &agent.session->options;
    if (thread_current)
        thread_reopen_counters(thread_current);
    if (thread_current && thread_needs_clock(options) && !atomic_load(&thread_current->idle) &&
        !clock_open(&thread_current->clock, options, options->period_ns))
        clock_go(&thread_current->clock, options);
}

void thread_move_now(void)
{
    struct thread *thread = thread_current;
    if (!thread || tracker->turn_to || !thread_is_misplaced(thread))
        return;
    const uint64_t all = UINT64_MAX;
    uint64_t before;
    signal_mask_change(SIG_SETMASK, &all, &before);
    struct live_thread *record = thread_record(thread);
    if (record && record != thread->record) {
        thread_leave_record(thread);
        close_tracker(thread);
        thread->record = record;
        if (!open_tracker(thread)) {
            trackers_forget_places(); // the next call finds its callers by a walk
            adopt(thread);
        }
    }
    signal_mask_release(&before);
}
