// SPDX-License-Identifier: MIT
#include "agent/thread.h"
#include "agent/real.h"
#include "agent/signals.h"
#include "loadmap/loadmap.h"
#include "unwind/arch.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORTEST_NS 10000 // to a first tick that is due already: the kernel can do no shorter
#define UNLIMITED_STACK (UINT64_C(64) << 30) // what a stack without a limit may reach

__thread struct thread *thread_current;

static pthread_key_t end_key;

// A tree that a thread with the same start routine has left, or NULL.
static struct live_thread *reuse_record(place_t start)
{
    ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
    while (ref) {
        struct live_thread *record = arena_at(&agent.arena, ref);
        uint32_t unowned = 0;
        // Acquire: the tree is as its last owner left it.
        if (record->start == start &&
            atomic_compare_exchange_strong_explicit(&record->owned, &unowned, 1,
                                                    memory_order_acquire, memory_order_relaxed))
            return record;
        ref = record->next;
    }
    return NULL;
}

_Static_assert(TREE_FULL == (int)LIVE_TREE_FULL && TREE_HOT == (int)LIVE_TREE_HOT &&
                   TREE_BOUNDED == (int)LIVE_TREE_BOUNDED &&
                   TREE_FUNCTIONS == (int)LIVE_TREE_FUNCTIONS &&
                   TREE_SPACE_SAVING == (int)LIVE_MINER_SPACE_SAVING &&
                   TREE_LOSSY_COUNTING == (int)LIVE_MINER_LOSSY &&
                   TREE_STICKY_SAMPLING == (int)LIVE_MINER_STICKY &&
                   TREE_PURGE_AGE == (int)LIVE_PURGE_AGE && TREE_PURGE_ALL == (int)LIVE_PURGE_ALL,
               "options are copied");

static struct live_thread *new_record(place_t start)
{
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_thread));
    if (!ref)
        return NULL;
    struct live_thread *record = arena_at(&agent.arena, ref);
    const struct live_options *options = &agent.session->options;
    const struct tree_options tree = {
        .kind = options->tree,
        .metrics = 1,
        .start = start,
        .miner = options->miner,
        .counters = options->hot_counters,
        .sticky_items = options->sticky_items,
        .depth = options->bounded_depth,
        .purge = options->purge,
        .bytes = options->bounded_bytes,
    };
    record->tree = tree_new(&agent.arena, &tree);
    if (!record->tree)
        return NULL;
    record->start = start;
    record->first_ns = clock_now(LIVE_EVENT_WALL);
    atomic_store_explicit(&record->owned, 1, memory_order_relaxed);
    live_push(&agent.process->threads, &record->next, ref);
    return record;
}

// The first thread whose clock opens tells what kind of clock this process has.
static void publish_source(const struct thread_clock *clock)
{
    if (agent.process->source)
        return;
    agent.process->exclude_kernel = clock->exclude_kernel;
    agent.process->source = clock->source;
}

static void *map_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int open_walker(struct thread *thread, struct unwind_bounds stack)
{
    const struct live_options *options = &agent.session->options;
    int error =
        walk_open(&thread->walker, &agent.arena, thread->record->tree, &thread->record->stats,
                  stack, options->marker && !arch_protects_returns());
    if (error || !options->trigger)
        return error;
    thread->trigger = map_memory(sizeof *thread->trigger);
    if (!thread->trigger)
        return -ENOMEM;
    thread->walker.keeps_returns = 0; // frames count calls
    const struct trigger_options trigger = {
        .period = options->call_period,
        .by_function = options->trigger == LIVE_TRIGGER_BY_FUNCTION,
        .randomised = options->randomised,
        .weights = options->weights_all_new ? WALK_WEIGH_ALL_NEW : WALK_WEIGH_LAST,
    };
    trigger_open(thread->trigger, &thread->walker, &trigger);
    return 0;
}

static int open_tracker(struct thread *thread, struct unwind_bounds stack)
{
    thread->walker.stack = stack;
    if (agent.session->options.tracker == LIVE_TRACKER_WALK)
        return open_walker(thread, stack);
    thread->calls = map_memory(sizeof *thread->calls);
    if (!thread->calls)
        return -ENOMEM;
    int error = calls_open(thread->calls, &agent.arena, thread->record->tree,
                           &thread->record->stats, stack);
    thread->calls->folds = agent.session->options.fold_recursion;
    return error;
}

static void close_tracker(struct thread *thread)
{
    walk_current = NULL;
    calls_current = NULL;
    trigger_current = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    walk_close(&thread->walker);
    if (thread->calls) {
        calls_close(thread->calls);
        munmap(thread->calls, sizeof *thread->calls);
    }
    if (thread->trigger)
        munmap(thread->trigger, sizeof *thread->trigger);
    thread->calls = NULL;
    thread->trigger = NULL;
}

static bool needs_clock(const struct live_options *options)
{
    return options->event != LIVE_EVENT_CALLS || options->burst_interval_ns;
}

// Starts to profile the calling thread. On failure it runs on, unprofiled.
static int begin_thread(struct thread *thread, struct unwind_bounds stack)
{
    place_t start = thread->start ? loadmap_place((uintptr_t)thread->start) : 0;
    const struct live_options *options = &agent.session->options;
    struct live_thread *record = options->per_thread ? NULL : reuse_record(start);
    if (!record)
        record = new_record(start);
    if (!record)
        return -ENOSPC;
    atomic_store_explicit(&record->tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
    atomic_fetch_add_explicit(&record->threads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&agent.process->thread_starts, 1, memory_order_relaxed);
    thread->record = record;
    int error = open_tracker(thread, stack);
    if (error)
        return error;
    signals_open_thread(thread);
    // Threads that take turns at one tree are sampled as if they were one: many short ones get
    // their share.
    const uint64_t pending = record->pending, period = options->period_ns;
    record->pending = 0;
    thread->last = pending; // until start_clock() knows the time
    thread->last_node = record->last_node;
    thread_current = thread;
    walk_current = thread->calls ? NULL : &thread->walker;
    calls_current = thread->calls;
    trigger_current = thread->trigger;
    error = !needs_clock(options)
                ? 0
                : clock_open(&thread->clock, options,
                             pending + SHORTEST_NS < period ? period - pending : SHORTEST_NS);
    if (!error)
        publish_source(&thread->clock);
    return error;
}

// Charges a cost that no sample came for to where the last sample was; to the root, if there never
// was one.
static void settle(struct live_thread *record, ref_t node, uint64_t rest)
{
    if (!node)
        node = tree_unplaced(&agent.arena, record->tree, tree_root(&agent.arena, record->tree));
    tree_add(&agent.arena, node, 0, rest);
    record->stats.cost_ns += rest;
    record->stats.residue_ns += rest;
}

// The last thing before the program's own code. What the thread did since its clock was at `began`
// (it was made, libraries were loaded, we were set up) is no call path of the program: it goes to
// the root.
static void start_clock(struct thread *thread, uint64_t began)
{
    const struct live_options *options = &agent.session->options;
    if (!needs_clock(options))
        return;
    const uint64_t now = clock_now(options->event);
    if (options->event == LIVE_EVENT_CPU && now > began)
        settle(thread->record, 0, now - began);
    thread->record->charged = now;
    // What earlier owners of the tree left is charged with the next sample.
    thread->last = now - thread->last;
    clock_go(&thread->clock, options);
}

// What is not charged yet. A guess of the clock may have charged a little too much: then nothing.
static uint64_t since_last(const struct thread *thread, uint64_t now)
{
    int64_t rest = (int64_t)(now - thread->last);
    return rest > 0 ? (uint64_t)rest : 0;
}

static void end_thread(struct thread *thread)
{
    // After this a late signal finds no thread and goes away.
    thread_current = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    const enum live_event event = agent.session->options.event;
    const uint64_t end = event == LIVE_EVENT_CALLS ? 0 : clock_now(event);
    clock_close(&thread->clock);
    if (thread->record && event != LIVE_EVENT_CALLS) {
        thread->record->pending = since_last(thread, end);
        thread->record->last_node = thread->last_node;
        settle(thread->record, 0,
               clock_now(event) - end); // our own work is no call path of the program
    }
    close_tracker(thread);
    if (thread->record) // Release: the next owner finds the tree as we left it.
        atomic_store_explicit(&thread->record->owned, 0, memory_order_release);
    thread_give(thread);
}

// The CPU time of another thread of this process: its clock has a number made of the thread's (see
// clock_getcpuclockid). 0 if it is gone.
static uint64_t cpu_clock_of(pid_t thread)
{
    const clockid_t clock = (clockid_t)(~(unsigned)thread << 3 | 6);
    struct timespec time;
    if (clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// A thread that lives until the process ends gets no chance to settle. A sample that it takes at
// this very moment may be counted twice: it is one period at most.
static void settle_living(struct live_thread *record, pid_t self)
{
    const pid_t thread = (pid_t)atomic_load_explicit(&record->tid, memory_order_relaxed);
    if (agent.session->options.event != LIVE_EVENT_CPU || thread == self)
        return;
    const uint64_t now = cpu_clock_of(thread);
    if (now > record->charged)
        settle(record, record->last_node, now - record->charged);
}

static void settle_others(void)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
    while (ref) {
        struct live_thread *record = arena_at(&agent.arena, ref);
        uint32_t unowned = 0;
        if (atomic_compare_exchange_strong_explicit(&record->owned, &unowned, 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            if (record->pending)
                settle(record, record->last_node, record->pending);
            record->pending = 0;
            atomic_store_explicit(&record->owned, 0, memory_order_release);
        } else {
            settle_living(record, self);
        }
        ref = record->next;
    }
}

// Time that a thread waits is charged when it goes on. Those that wait to the end of the process
// must be asked where they are: each takes one more sample. What does not answer soon stays out.
static void ask_waiting(void)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire); ref;) {
        struct live_thread *record = arena_at(&agent.arena, ref);
        const pid_t thread = (pid_t)atomic_load_explicit(&record->tid, memory_order_relaxed);
        const uint64_t before = __atomic_load_n(&record->stats.samples, __ATOMIC_RELAXED);
        ref = record->next;
        if (thread == self || !atomic_load_explicit(&record->owned, memory_order_relaxed) ||
            clock_send_last_tick(agent.pid, thread))
            continue;
        struct timespec moment = {.tv_nsec = 100000};
        for (int i = 0;
             i < 50 && __atomic_load_n(&record->stats.samples, __ATOMIC_RELAXED) == before; i++)
            syscall(SYS_nanosleep, &moment, NULL);
    }
}

void thread_settle_all(void)
{
    if (!atomic_load_explicit(&agent.session->recording, memory_order_relaxed) ||
        agent.session->options.event == LIVE_EVENT_CALLS)
        return;
    if (agent.session->options.event == LIVE_EVENT_WALL)
        ask_waiting();
    // Blocked for the moment: a sample in between would be charged twice.
    sigset_t all, before;
    sigfillset(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &before);
    struct thread *thread = thread_current;
    if (thread) {
        uint64_t now = clock_now(agent.session->options.event);
        settle(thread->record, thread->last_node, since_last(thread, now));
        thread->last = now;
    }
    settle_others();
    REAL(pthread_sigmask)(SIG_SETMASK, &before, NULL);
}

// Runs among the destructors of thread-specific data. Those of the program come first if we wait
// for the last round.
static void on_thread_end(void *value)
{
    struct thread *thread = value;
    if (++thread->ending < PTHREAD_DESTRUCTOR_ITERATIONS - 1)
        pthread_setspecific(end_key, thread);
    else
        end_thread(thread);
}

static struct unwind_bounds main_stack(void)
{
    extern void *__libc_stack_end; // set by the loader: the stack pointer at the first instruction
    struct rlimit limit;
    // A little of what lies above, the arguments, so that the outermost frame itself is inside.
    uintptr_t high = (uintptr_t)__libc_stack_end + 64;
    uint64_t reach = UNLIMITED_STACK;
    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < reach)
        reach = limit.rlim_cur;
    return (struct unwind_bounds){.low = high > reach ? high - reach : 4096, .high = high};
}

void thread_enter(struct thread *thread, struct unwind_bounds stack)
{
    const int saved_errno = errno;
    // A cancellation that waits already must strike in the program's code, not in ours.
    int cancellable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    const bool failed = begin_thread(thread, stack);
    if (failed)
        end_thread(thread);
    else
        pthread_setspecific(end_key, thread);
    pthread_setcancelstate(cancellable, NULL);
    if (!failed)
        start_clock(thread, 0);
    errno = saved_errno;
}

int thread_start_main(uint64_t began)
{
    int error = pthread_key_create(&end_key, on_thread_end);
    if (error)
        return -error;
    pthread_atfork(NULL, NULL, agent_after_fork);
    struct thread *thread = thread_take();
    if (!thread)
        return -ENOMEM;
    error = begin_thread(thread, main_stack());
    if (error)
        end_thread(thread);
    else
        start_clock(thread, began);
    return error;
}

void thread_after_fork(void)
{
    thread_pool_after_fork();
    struct thread *thread = thread_current;
    if (!thread)
        return;
    struct unwind_bounds stack = thread->walker.stack;
    // The parent's clock is not ours, its page is: unmap it. The marker on our copy of the stack
    // goes too.
    clock_close(&thread->clock);
    close_tracker(thread);
    thread_current = NULL;
    thread->record = NULL;
    thread->last_node = 0;
    thread->last_wall = 0;
    thread->not_before = 0; // the child's clock begins at nought
    if (agent.active && begin_thread(thread, stack))
        agent.active = false;
    if (agent.active)
        start_clock(thread, 0);
}

uint64_t thread_charged(void)
{
    return thread_current ? thread_current->last : 0;
}

void thread_pause_clock(void)
{
    if (thread_current)
        clock_close(&thread_current->clock);
}

void thread_resume_clock(void)
{
    const struct live_options *options = &agent.session->options;
    if (thread_current && needs_clock(options) &&
        !clock_open(&thread_current->clock, options, options->period_ns))
        clock_go(&thread_current->clock, options);
}
