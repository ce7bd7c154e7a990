// SPDX-License-Identifier: MIT
#include "agent/interpose/events/lock.h"
#include "event/clock.h"
#include <errno.h>

enum {
    HOLDERS = 65536, // locks that are remembered
    WAYS = 4,        // places where one may be
    TRIES = 64,      // places where a pair may be
};

// Where a lock was taken last. Any thread writes the lock, then the node, relaxed: a reader that
// finds one of the two changed meanwhile blames the wrong place for one wait.
struct holder {
    uintptr_t lock;
    uint64_t node;
};

static struct {
    struct holder *holders;
    bool told;      // trackers know the functions
    bool keeps;     // trees are full: their statements have all values
    unsigned value; // the first of the values in a node
} lock;

static struct holder *bucket_of(const void *of)
{
    const uint64_t hash = ((uintptr_t)of >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return &lock.holders[(hash >> 32) % (HOLDERS / WAYS) * WAYS];
}

// NULL: it is not there.
static struct holder *find_holder(const void *of)
{
    struct holder *bucket = bucket_of(of);
    for (unsigned i = 0; i < WAYS; i++)
        if (__atomic_load_n(&bucket[i].lock, __ATOMIC_RELAXED) == (uintptr_t)of)
            return &bucket[i];
    return NULL;
}

// A free place, or that of another lock, which is forgotten.
static struct holder *take_place(const void *of)
{
    struct holder *bucket = bucket_of(of);
    unsigned i = 0;
    while (i < WAYS && __atomic_load_n(&bucket[i].lock, __ATOMIC_RELAXED))
        i++;
    struct holder *place = &bucket[i < WAYS ? i : (uintptr_t)of >> 16 & (WAYS - 1)];
    __atomic_store_n(&place->lock, (uintptr_t)of, __ATOMIC_RELAXED);
    return place;
}

// Around all that an operation does with the recording, if that is still the one it began in.
static enum counted_visit enter(const struct lock_operation *operation)
{
    const enum counted_visit visit = counted_enter(LIVE_EVENT_LOCK, operation->frame);
    if (!visit || operation->recording == agent.recording)
        return visit;
    counted_leave(visit);
    return COUNTED_TOO_LATE;
}

static void hold(const struct lock_operation *operation, const void *of)
{
    struct holder *place = find_holder(of);
    if (UNLIKELY(!place))
        place = take_place(of);
    __atomic_store_n(&place->node, operation->node, __ATOMIC_RELAXED);
}

void lock_hold(const struct lock_operation *operation, const void *of)
{
    const enum counted_visit visit = enter(operation);
    if (visit && lock.keeps)
        hold(operation, of);
    counted_leave(visit);
}

static void count(ref_t ref, enum live_lock_value value, uint64_t amount)
{
    struct node *node = arena_at(&agent.arena, ref ? ref : counted_without_context);
    counted_add(&node->value[lock.value + value], amount);
}

// The node of the caller; where trees forget, with this cost, which is then charged.
static ref_t locate(enum counted_visit visit, const void *frame, uint64_t cost)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    struct thread *thread = counted_thread(visit);
    ref_t node = 0;
    if (!counted_begin(thread, frame))
        return 0;
    const int saved_errno = errno;
    node = counted_locate(thread, &caller, LIVE_EVENT_LOCK, cost);
    if (node && cost && !lock.keeps)
        tree_charge(&agent.arena, thread->record->tree, node, cost);
    counted_end(thread, node);
    errno = saved_errno;
    return node;
}

struct lock_operation lock_begin(const void *frame)
{
    const enum counted_visit visit = counted_enter(LIVE_EVENT_LOCK, frame);
    const struct lock_operation operation = {
        .frame = frame,
        .node = visit && lock.keeps ? locate(visit, frame, 0) : 0,
        .recording = visit ? agent.recording : agent.recording - 1,
    };
    counted_leave(visit);
    return operation;
}

void lock_wait(struct lock_operation *operation, const void *of)
{
    const struct holder *holder = of && lock.keeps ? find_holder(of) : NULL;
    if (holder)
        operation->holder = (ref_t)__atomic_load_n(&holder->node, __ATOMIC_RELAXED);
    operation->begun = clock_now(LIVE_EVENT_WALL);
}

static uint64_t time_of(const struct lock_operation *operation)
{
    return clock_now(LIVE_EVENT_WALL) - operation->begun;
}

// The cost of trees, if this event has their samples, is the time that threads waited for locks.
static void add_cost(uint64_t ns)
{
    struct thread *thread = thread_current;
    if (thread && agent.session->options.event == LIVE_EVENT_LOCK)
        thread->record->stats.cost_ns += ns;
}

// The place of this pair, or a free one that it takes. NULL: there is none.
static struct live_blame *place_of_pair(uint64_t pair)
{
    const ref_t ref = atomic_load_explicit(&agent.process->blames, memory_order_relaxed);
    struct live_blame *blames = ref ? arena_at(&agent.arena, ref) : NULL;
    const uint64_t hash = pair * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (unsigned i = 0; blames && i < TRIES; i++) {
        struct live_blame *blame = &blames[(hash + i) % LIVE_BLAMES];
        uint64_t there = 0;
        if (atomic_compare_exchange_strong_explicit(&blame->pair, &there, pair,
                                                    memory_order_release, memory_order_relaxed) ||
            there == pair)
            return blame;
    }
    return NULL;
}

static void blame(const struct lock_operation *operation, uint64_t ns)
{
    const ref_t waiter = operation->node ? operation->node : counted_without_context;
    struct live_blame *place = place_of_pair((uint64_t)waiter << 32 | operation->holder);
    count(operation->holder, LIVE_LOCK_BLAME, ns);
    if (!place)
        return;
    atomic_fetch_add_explicit(&place->ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&place->waits, 1, memory_order_relaxed);
}

static void note_wait(enum counted_visit visit, const struct lock_operation *operation)
{
    const uint64_t ns = time_of(operation);
    if (!lock.keeps) {
        locate(visit, operation->frame, ns);
        return;
    }
    add_cost(ns);
    count(operation->node, LIVE_LOCK_NS, ns);
    count(operation->node, LIVE_LOCK_CONTENDED, 1);
    if (operation->holder)
        blame(operation, ns);
}

void lock_waited(const struct lock_operation *operation)
{
    const enum counted_visit visit = enter(operation);
    if (visit)
        note_wait(visit, operation);
    counted_leave(visit);
}

void lock_taken(const struct lock_operation *operation, const void *of)
{
    const enum counted_visit visit = enter(operation);
    if (visit && lock.keeps) {
        hold(operation, of);
        count(operation->node, LIVE_LOCK_ACQUIRED, 1);
    }
    counted_leave(visit);
}

void lock_synced(const struct lock_operation *operation)
{
    const enum counted_visit visit = enter(operation);
    if (visit && lock.keeps) {
        count(operation->node, LIVE_SYNCS, 1);
        if (operation->begun)
            count(operation->node, LIVE_SYNC_NS, time_of(operation));
    }
    counted_leave(visit);
}

// Only in the builds that have it.
#pragma weak lock_tell_trackers

// Without memory for it, pairs are not kept.
static void start_blame(void)
{
    struct live_process *process = agent.process;
    if (lock.keeps && !atomic_load_explicit(&process->blames, memory_order_relaxed))
        // Release: a reader that finds it finds zeroes.
        atomic_store_explicit(&process->blames,
                              arena_alloc(&agent.arena, LIVE_BLAMES * sizeof(struct live_blame)),
                              memory_order_release);
}

int lock_start(void)
{
    if (!lock.told && !lock_tell_trackers)
        agent_note("libcairn.so sees no locks: libcairn-io.so does");
    else if (!lock.told && !counted_may_end) // then only walks are made
        lock_tell_trackers();
    lock.told = true;
    if (lock.holders && counted_may_end)
        counted_clear(lock.holders, HOLDERS * sizeof *lock.holders);
    if (!lock.holders)
        lock.holders = counted_map(HOLDERS * sizeof *lock.holders);
    if (!lock.holders)
        return -ENOMEM;
    lock.keeps = tree_traits_of(agent.session->options.tree)->keeps_all;
    lock.value = live_lock_value(&agent.session->options);
    start_blame();
    return counted_switch_on(LIVE_EVENT_LOCK, COUNTED_ALL);
}
