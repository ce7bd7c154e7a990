// SPDX-License-Identifier: MIT
// The trees of threads, and what is charged to them outside of samples.

#include "agent/session/real.h"
#include "agent/thread/phase.h"
#include "base/system/signal_mask.h"
#include "event/event.h"
#include "loadmap/loadmap.h"
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Trees with names, beyond which a thread of another name has that of its start routine: programs
// may name each thread after what it does.
#define MOST_NAMED 512

static bool is_like(const struct live_thread *record, const struct live_thread *like)
{
    return record->start == like->start && record->phase == like->phase &&
           record->creator == like->creator &&
           atomic_load_explicit(&record->generation, memory_order_relaxed) == like->generation;
}

// There is one main thread, whatever it is called.
static bool is_named_like(const struct live_thread *record, const struct live_thread *like)
{
    return !record->start || thread_name_same_pool(record->name, like->name);
}

// With a tree for each thread: only one that it had itself, in another phase.
static bool may_share(const struct thread *thread, const struct live_thread *record)
{
    return !agent.session->options.per_thread ||
           (atomic_load_explicit(&record->tid, memory_order_relaxed) == (uint32_t)thread->id &&
            record->first_ns >= thread->begun_ns);
}

// Acquire: the tree is as its last owner left it.
static bool take_unowned(struct live_thread *record)
{
    uint32_t unowned = 0;
    return atomic_compare_exchange_strong_explicit(&record->owned, &unowned, 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

// Takes the name away if it is one too many.
static void bound_names(struct live_thread *like)
{
    uint32_t left = LIVE_MOST_LISTED, named = 0;
    const struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next) {
        named += record->name[0] != 0;
        if (is_like(record, like) && is_named_like(record, like))
            return;
    }
    if (named >= MOST_NAMED)
        memset(like->name, 0, sizeof like->name);
}

enum record_name { SAME_POOL, ANY_NAME };

// A tree that a thread with the same start routine has left, or NULL.
static struct live_thread *reuse_record(const struct thread *thread, const struct live_thread *like,
                                        enum record_name name)
{
    uint32_t left = LIVE_MOST_LISTED;
    struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next)
        if (is_like(record, like) && (name == ANY_NAME || is_named_like(record, like)) &&
            may_share(thread, record) && take_unowned(record))
            return record;
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

// Space Saving keeps the promised error with 1/epsilon counters where all events weigh the same,
// and with twice as many where they do not (src/tree/miners/space_saving.c).
static uint64_t hot_counters(const struct live_options *options)
{
    const bool alike = options->event == LIVE_EVENT_CALLS;
    return alike || options->miner != LIVE_MINER_SPACE_SAVING ? options->hot_counters
                                                              : 2 * options->hot_counters;
}

static struct live_thread *new_record(const struct live_thread *like)
{
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_thread));
    if (!ref) // its tree will be one that forgets
        ref = arena_alloc_kept(&agent.arena, sizeof(struct live_thread));
    if (!ref)
        return NULL;
    struct live_thread *record = arena_at(&agent.arena, ref);
    const struct live_options *options = &agent.session->options;
    const struct tree_options tree = {
        .kind = options->tree,
        .metrics = live_values(options),
        .start = like->start,
        .miner = options->miner,
        .counters = hot_counters(options),
        .sticky_items = options->sticky_items,
        .depth = options->bounded_depth,
        .purge = options->purge,
        .bytes = options->bounded_bytes,
    };
    record->tree = tree_new(&agent.arena, &tree);
    if (!record->tree)
        return NULL;
    record->start = like->start;
    record->phase = like->phase;
    record->creator = like->creator;
    record->generation = like->generation;
    memcpy(record->name, like->name, sizeof record->name);
    record->first_ns = clock_now(LIVE_EVENT_WALL);
    atomic_store_explicit(&record->owned, 1, memory_order_relaxed);
    live_push(&agent.process->threads, &record->next, ref);
    return record;
}

// The properties that the thread's tree must have.
static struct live_thread wanted(const struct thread *thread, phase_t phase)
{
    struct live_thread like = {
        .start = thread->start ? loadmap_place((uintptr_t)thread->start) : 0,
        .phase = phase_record(phase),
        .creator = thread->creator,
        .generation = atomic_load_explicit(&agent.generation, memory_order_relaxed),
    };
    memcpy(like.name, thread->name, sizeof like.name);
    like.name[sizeof like.name - 1] = 0; // it may be written this moment
    return like;
}

static void name_record(struct live_thread *record, const struct live_thread *like)
{
    // Threads that share a tree are named by the common part of their names.
    if (record->name[0] && record->start && !thread_name_equals(record->name, like->name))
        thread_name_pool(record->name, like->name);
    else if (like->name[0])
        memcpy(record->name, like->name, sizeof record->name);
}

// The thread can keep its tree: it has that name, or none and no other owner.
static bool may_stay(const struct live_thread *record, const struct live_thread *like)
{
    const bool own =
        !record->name[0] && atomic_load_explicit(&record->threads, memory_order_relaxed) == 1;
    return is_like(record, like) && (is_named_like(record, like) || own);
}

struct live_thread *thread_record(struct thread *thread)
{
    const phase_t phase = phase_of(thread);
    // Before the name is read: a change of the name meanwhile makes it unsure again.
    atomic_store_explicit(&thread->record_phase, (uint16_t)phase, memory_order_seq_cst);
    struct live_thread like = wanted(thread, phase), *record = thread->record;
    if (record && is_like(record, &like) && is_named_like(record, &like)) {
        name_record(record, &like);
        return record;
    }
    if (like.name[0])
        bound_names(&like);
    record = reuse_record(thread, &like, SAME_POOL);
    if (!record && thread->record && may_stay(thread->record, &like))
        record = thread->record;
    // A thread that begins has no name yet, and will most likely be of the same pool as the last
    // one of its start routine. If it is not, its first sample moves it.
    if (!record && !thread->record && !like.name[0] &&
        (record = reuse_record(thread, &like, ANY_NAME)))
        atomic_store_explicit(&thread->record_phase, PHASE_UNSURE, memory_order_relaxed);
    else if (record)
        name_record(record, &like);
    else
        record = new_record(&like);
    if (!record)
        return NULL;
    thread->record_samples = record->stats.samples;
    // Relaxed: for readers that want to know.
    if (atomic_exchange_explicit(&record->tid, (uint32_t)thread->id, memory_order_relaxed) !=
        (uint32_t)thread->id)
        atomic_fetch_add_explicit(&record->threads, 1, memory_order_relaxed);
    return record;
}

ref_t thread_first_tree(void)
{
    const struct thread *self = thread_current;
    if (self && self->record)
        return self->record->tree;
    struct thread main = {.id = agent.pid};
    main.record = thread_record(&main);
    if (!main.record)
        return 0;
    const ref_t tree = main.record->tree;
    thread_leave_record(&main);
    return tree;
}

bool thread_is_misplaced(const struct thread *thread)
{
    return atomic_load_explicit(&thread->record_phase, memory_order_relaxed) != phase_of(thread) ||
           atomic_load_explicit(&thread->record->generation, memory_order_relaxed) !=
               atomic_load_explicit(&agent.generation, memory_order_relaxed);
}

// Gives the tree back. Release: the next owner finds it as we left it.
void thread_leave_record(struct thread *thread)
{
    atomic_store_explicit(&thread->record->owned, 0, memory_order_release);
    thread->record = NULL;
}

// Leaves one tree for the other. Time that its earlier owner left is charged with the next sample.
static void take_record(struct thread *thread, struct live_thread *record, uint64_t samples)
{
    if (thread->record->stats.samples == samples) // it was never seen there
        atomic_fetch_sub_explicit(&thread->record->threads, 1, memory_order_relaxed);
    thread->record->pending = thread->record->pending_wall = 0;
    thread->record->last_node = 0;
    thread_leave_record(thread);
    thread->record = record;
    thread->last -= record->pending;
    thread->wall -= record->pending_wall;
    record->pending = record->pending_wall = 0;
    thread->last_node = 0;
}

void thread_move(struct thread *thread)
{
    // At a bad moment, while the marker's stub or backtrace() is at work: the next sample will do.
    if (!tracked_may_turn(&thread->tracked))
        return;
    const uint64_t samples = thread->record_samples;
    struct live_thread *record = thread_record(thread);
    if (!record || record == thread->record)
        return; // no memory: it stays where it is
    take_record(thread, record, samples);
    tracker->turn_to(&thread->tracked, record->tree, &record->stats);
}

void thread_name_record(struct thread *thread)
{
    if (atomic_load_explicit(&thread->record_phase, memory_order_relaxed) != PHASE_UNSURE)
        return;
    struct live_thread like = wanted(thread, phase_of(thread));
    bound_names(&like);
    if (like.name[0] && may_stay(thread->record, &like))
        name_record(thread->record, &like);
}

// Charges a cost that no sample came for to where the last sample was; to the root, if there never
// was one.
void thread_settle(struct live_thread *record, ref_t node, uint64_t rest)
{
    if (!node)
        node = tree_unplaced(&agent.arena, record->tree, tree_root(&agent.arena, record->tree));
    // A handler of the program's may come, and its calls must not enter a tree that changes.
    struct calls_thread *held = tracked_hold();
    thread_charge(record, node, rest, timeline_now());
    tracked_release(held);
    record->stats.cost_ns += rest;
    record->stats.residue_ns += rest;
}

void thread_charge_wall(struct live_thread *record, ref_t node, uint64_t rest, uint64_t when)
{
    const struct live_options *options = &agent.session->options;
    if (!live_has_wall_beside(options) || (int64_t)rest <= 0)
        return;
    if (!node)
        node = tree_unplaced(&agent.arena, record->tree, tree_root(&agent.arena, record->tree));
    tree_add(&agent.arena, node, live_time_value(options) + 1, rest);
    timeline_note(record, node, 1, rest, when);
}

// The time that is not charged yet. A guess of the clock may have charged a little too much: then
// nothing.
uint64_t thread_unsettled(const struct thread *thread, uint64_t now)
{
    int64_t rest = (int64_t)(now - thread->last);
    return rest > 0 ? (uint64_t)rest : 0;
}

// A thread that lives until the process ends gets no chance to settle. A sample that it takes at
// this very moment may be counted twice: it is one period at most.
static void settle_living(struct live_thread *record, pid_t self)
{
    const pid_t thread = (pid_t)atomic_load_explicit(&record->tid, memory_order_relaxed);
    if (agent.session->options.event != LIVE_EVENT_CPU || thread == self)
        return;
    const uint64_t now = clock_cpu_of(thread);
    const uint64_t rest = now > record->charged ? now - record->charged : 0;
    // A tree that forgets may be changing at this moment, and only its owner may change it. If an
    // addition is not enough, the root of a bounded tree takes the cost, and a hot tree goes
    // without it.
    const unsigned value = live_time_value(&agent.session->options);
    if (rest && tree_charge_late(&agent.arena, record->tree, record->last_node, value, rest)) {
        timeline_write_late(record, record->last_node, rest);
        record->stats.cost_ns += rest;
        record->stats.residue_ns += rest;
    } else if (rest && tree_traits_of(tree_kind(&agent.arena, record->tree))->has_buffer) {
        thread_settle(record, 0, rest);
    }
}

static void settle_others(void)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    uint32_t left = LIVE_MOST_LISTED;
    struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next) {
        uint32_t unowned = 0;
        if (atomic_compare_exchange_strong_explicit(&record->owned, &unowned, 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            if (record->pending)
                thread_settle(record, record->last_node, record->pending);
            thread_charge_wall(record, record->last_node, record->pending_wall, timeline_now());
            record->pending = record->pending_wall = 0;
            atomic_store_explicit(&record->owned, 0, memory_order_release);
        } else {
            settle_living(record, self);
        }
    }
}

// Time that a thread waits is charged when the wait ends. Those that wait to the end of the process
// must be asked where they are: each takes one more sample. A thread that does not answer soon is
// left out.
static void ask_waiting(void)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next) {
        const pid_t thread = (pid_t)atomic_load_explicit(&record->tid, memory_order_relaxed);
        const uint64_t before = __atomic_load_n(&record->stats.samples, __ATOMIC_RELAXED);
        if (thread == self || !atomic_load_explicit(&record->owned, memory_order_relaxed) ||
            clock_send_last_tick(agent.pid, thread))
            continue;
        struct timespec moment = {.tv_nsec = 100000};
        for (int i = 0;
             i < 50 && __atomic_load_n(&record->stats.samples, __ATOMIC_RELAXED) == before; i++)
            syscall(SYS_nanosleep, &moment, NULL);
    }
}

struct switches_since thread_count_switches(struct thread *thread, uint64_t now)
{
    struct switches_since since = {0};
    const bool sparse = thread_is_sparse(thread);
    if (agent.silent || thread->clock.source == LIVE_SOURCE_AUTO)
        return since;
    since = switches_take(&thread->switches, now, sparse);
    if (thread->clock.source != LIVE_SOURCE_TIMER)
        thread->record->stats.switches += sparse ? since.count / SWITCHES_SPARSE_COST : since.count;
    return since;
}

void thread_review_clock(struct thread *thread, uint64_t now)
{
    const struct live_options *options = &agent.session->options;
    const bool was_sparse = thread_is_sparse(thread);
    const struct switches_since since = thread_count_switches(thread, now);
    // A wait is charged when it ends, at any period; and a source that was asked for is used as it
    // is.
    if (options->source != LIVE_SOURCE_AUTO || live_has(options, LIVE_EVENT_WALL) ||
        clock_forbidden || !since.cpu_ns || thread->clock.source == LIVE_SOURCE_TIMER)
        return;
    const bool sparse = switches_are_many(&since, options->period_ns, was_sparse);
    const uint64_t period = sparse ? switches_period(options->period_ns) : options->period_ns;
    if (period == thread->clock.period)
        return;
    clock_change_period(&thread->clock, options, period);
    cpu_guess_ask_next(&thread->guess);
}

void thread_settle_living(void)
{
    settle_others();
}

static void settle_counters(struct thread *thread)
{
    const uint64_t all = UINT64_MAX;
    uint64_t before;
    if (!thread->counters.count && !thread->counters.has_offcpu)
        return;
    signal_mask_change(SIG_SETMASK, &all, &before);
    thread_settle_counters(thread);
    signal_mask_release(&before);
}

void thread_settle_all(void)
{
    if (agent_is_recording() && live_has(&agent.session->options, LIVE_EVENT_OFFCPU))
        ask_waiting();
    if (thread_current)
        settle_counters(thread_current);
    if (!agent_is_recording() || !event_of(agent.session->options.event)->by_clock)
        return;
    if (live_has(&agent.session->options, LIVE_EVENT_WALL) &&
        !live_has(&agent.session->options, LIVE_EVENT_OFFCPU))
        ask_waiting();
    // Blocked for the moment: a sample in between would be charged twice.
    const uint64_t all = UINT64_MAX;
    uint64_t before;
    signal_mask_change(SIG_SETMASK, &all, &before);
    struct thread *thread = thread_current;
    if (thread && thread->record) {
        uint64_t now = clock_now(agent.session->options.event);
        thread_settle(thread->record, thread->last_node, thread_unsettled(thread, now));
        thread->last = now;
        thread_count_switches(thread, now);
        now = clock_now(LIVE_EVENT_WALL);
        thread_charge_wall(thread->record, thread->last_node, now - thread->wall, now);
        thread->wall = now;
    }
    settle_others();
    signal_mask_release(&before);
}
