// SPDX-License-Identifier: MIT
#include "agent/api/watch.h"
#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/item.h"
#include "base/agent_map.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WATCHES 16
#define WAYS 8
#define BUCKETS 4096 // a power of two
#define MESSAGES 64
#define MESSAGE_FRAMES 64
#define DEEPEST (1 << 20) // a longer path was scribbled over, and has no end

struct counter {
    _Atomic uint64_t key; // 0: free
    _Atomic uint64_t value;
};

enum message_state { MESSAGE_FREE, MESSAGE_BUSY, MESSAGE_READY };

struct message {
    _Atomic uint32_t state; // the thread that takes it from free or ready has it alone
    uint32_t serial;        // of the watch
    uint64_t value;
    uint32_t depth, count;
    struct edge edges[MESSAGE_FRAMES]; // innermost first
};

struct board {
    struct counter counters[BUCKETS][WAYS];
    struct message messages[MESSAGES];
};

// A serial of 0 is no watch. Written under the lock, the serial last and with release; handlers
// read.
static struct watch {
    _Atomic uint32_t serial;
    enum cairn_kind kind;
    uint64_t threshold;
    cairn_visit *visit;
    void *context;
} watches[WATCHES];

_Atomic uint32_t watch_count;
static _Atomic(struct board *) board; // made by the first watch, and never taken away
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_serial = 1;
static _Atomic int descriptor = -1;

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static struct edge edge_of(const struct node *node)
{
    struct edge edge = {0, 0};
    tree_edge_read(&agent.arena, arena_head(&agent.arena)->limit, node->edge & ~TREE_UNMONITORED,
                   &edge);
    return edge;
}

// The frame that a node stands for: a statement's is its parent. NULL: the root, which is none.
static const struct node *frame_of(ref_t ref)
{
    for (unsigned i = 0; i < DEEPEST; i++) {
        const struct node *node = arena_find(&agent.arena, ref, sizeof *node);
        if (!node || !node->parent)
            return NULL;
        if (edge_of(node).function)
            return node;
        ref = node->parent;
    }
    return NULL;
}

static uint64_t key_of(const struct watch *watch, uint32_t serial, const struct node *frame)
{
    struct edge edge = edge_of(frame);
    uint64_t key = mix(serial, edge.function);
    if (watch->kind != CAIRN_FUNCTIONS)
        key = mix(key, edge.site);
    if (watch->kind == CAIRN_CONTEXTS)
        for (unsigned left = DEEPEST; left > 0 && (frame = frame_of(frame->parent)); left--) {
            edge = edge_of(frame);
            key = mix(mix(key, edge.function), edge.site);
        }
    return key ? key : 1;
}

// Adds to the key's counter. Returns its old value.
static uint64_t count(struct board *on, uint64_t key, uint64_t weight)
{
    struct counter *bucket = on->counters[key >> 40 & (BUCKETS - 1)], *smallest = bucket;
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t found = atomic_load_explicit(&bucket[i].key, memory_order_relaxed);
        // Relaxed, all of it: counters of many threads, and nothing else hangs on them.
        if (found == 0 &&
            atomic_compare_exchange_strong_explicit(&bucket[i].key, &found, key,
                                                    memory_order_relaxed, memory_order_relaxed))
            found = key;
        if (found == key)
            return atomic_fetch_add_explicit(&bucket[i].value, weight, memory_order_relaxed);
        if (atomic_load_explicit(&bucket[i].value, memory_order_relaxed) <
            atomic_load_explicit(&smallest->value, memory_order_relaxed))
            smallest = &bucket[i];
    }
    atomic_store_explicit(&smallest->value, weight, memory_order_relaxed);
    atomic_store_explicit(&smallest->key, key, memory_order_relaxed);
    return 0;
}

// The program may have closed it, and the number may be another file's by now: only what looks like
// the one that we made is written to.
static void ring(void)
{
    const int fd = atomic_load_explicit(&descriptor, memory_order_relaxed);
    const uint64_t one = 1;
    struct stat status;
    if (fd < 0 || syscall(SYS_fstat, fd, &status) || (status.st_mode & S_IFMT))
        return;
    syscall(SYS_write, fd, &one, sizeof one);
}

static void leave_message(struct board *on, uint32_t serial, const struct node *frame,
                          uint64_t value)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct message *message = &on->messages[i];
        uint32_t state = MESSAGE_FREE;
        // Acquire and release: a message is read whole before it is written again.
        if (!atomic_compare_exchange_strong_explicit(&message->state, &state, MESSAGE_BUSY,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        message->serial = serial;
        message->value = value;
        message->depth = message->count = 0;
        for (; frame && message->depth < DEEPEST; frame = frame_of(frame->parent), message->depth++)
            if (message->count < MESSAGE_FRAMES)
                message->edges[message->count++] = edge_of(frame);
        atomic_store_explicit(&message->state, MESSAGE_READY, memory_order_release);
        ring();
        return;
    }
}

void watch_sample(ref_t node, uint64_t weight)
{
    struct board *on = atomic_load_explicit(&board, memory_order_acquire);
    const struct node *frame = frame_of(node);
    if (!on || !frame)
        return;
    for (unsigned i = 0; i < WATCHES; i++) {
        const struct watch *watch = &watches[i];
        const uint32_t serial = atomic_load_explicit(&watch->serial, memory_order_acquire);
        if (!serial)
            continue;
        const uint64_t threshold = watch->threshold;
        const uint64_t before = count(on, key_of(watch, serial, frame), weight);
        if (before < threshold && before + weight >= threshold)
            leave_message(on, serial, frame, before + weight);
    }
}

static int add_watch(enum cairn_kind kind, uint64_t threshold, cairn_visit *visit, void *context)
{
    if (!atomic_load_explicit(&board, memory_order_relaxed)) {
        struct board *fresh = agent_map_map(sizeof *fresh);
        if (!fresh)
            return -ENOMEM;
        atomic_store_explicit(&board, fresh, memory_order_release);
    }
    for (unsigned i = 0; i < WATCHES; i++) {
        struct watch *watch = &watches[i];
        if (atomic_load_explicit(&watch->serial, memory_order_relaxed))
            continue;
        watch->kind = kind;
        watch->threshold = threshold;
        watch->visit = visit;
        watch->context = context;
        const uint32_t serial = next_serial++ & INT32_MAX;
        atomic_store_explicit(&watch->serial, serial, memory_order_release);
        atomic_fetch_add_explicit(&watch_count, 1, memory_order_relaxed);
        return (int)serial;
    }
    return -ENOSPC;
}

API int cairn_watch_1(enum cairn_kind kind, uint64_t threshold, cairn_visit *visit, void *context)
{
    if (!visit || !threshold || (unsigned)kind > CAIRN_FUNCTIONS)
        return -EINVAL;
    if (agent_in_vfork_child())
        return -EPERM;
    if (agent.active && agent.session->options.event == LIVE_EVENT_CALLS)
        return -ENOTSUP; // no samples
    pthread_mutex_lock(&lock);
    int result = add_watch(kind, threshold, visit, context);
    pthread_mutex_unlock(&lock);
    return result;
}

API int cairn_unwatch_1(int serial)
{
    int result = -EINVAL;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < WATCHES && serial > 0; i++) {
        if (atomic_load_explicit(&watches[i].serial, memory_order_relaxed) != (uint32_t)serial)
            continue;
        atomic_store_explicit(&watches[i].serial, 0, memory_order_relaxed);
        atomic_fetch_sub_explicit(&watch_count, 1, memory_order_relaxed);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

API int cairn_watch_fd_1(void)
{
    pthread_mutex_lock(&lock);
    int fd = atomic_load_explicit(&descriptor, memory_order_relaxed);
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        fd = fd < 0 ? -errno : fd;
        if (fd >= 0)
            atomic_store_explicit(&descriptor, fd, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

// Takes a message, if it is ready. The watch is copied under the lock: the callback runs without
// it, and may end the watch.
static bool take_message(struct message *message, struct message *copy, struct watch *watch)
{
    uint32_t state = MESSAGE_READY;
    if (!atomic_compare_exchange_strong_explicit(&message->state, &state, MESSAGE_BUSY,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    memcpy((char *)copy + sizeof copy->state, (char *)message + sizeof message->state,
           sizeof *copy - sizeof copy->state);
    atomic_store_explicit(&message->state, MESSAGE_FREE, memory_order_release);
    bool found = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < WATCHES && !found; i++) {
        found = atomic_load_explicit(&watches[i].serial, memory_order_relaxed) == copy->serial;
        if (found)
            memcpy(watch, &watches[i], sizeof *watch);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void deliver(const struct watch *watch, const struct message *message)
{
    struct cairn_frame frames[MESSAGE_FRAMES];
    struct api_modules modules;
    if (api_modules_open(&modules))
        return;
    const bool is_path = watch->kind == CAIRN_CONTEXTS;
    struct cairn_item item = {
        .kind = watch->kind,
        .value = message->value,
        .total = message->value,
        .depth = is_path ? message->depth : 1,
        .frames = frames,
    };
    for (; item.frame_count < (is_path ? message->count : 1); item.frame_count++) {
        struct edge edge = message->edges[item.frame_count];
        if (watch->kind == CAIRN_FUNCTIONS)
            edge.site = 0;
        frames[item.frame_count] = api_frame(&modules, &edge);
    }
    api_modules_close(&modules);
    watch->visit(&item, watch->context);
}

API int cairn_poll_1(void)
{
    struct board *on = atomic_load_explicit(&board, memory_order_acquire);
    if (!on || !agent.active || agent_in_vfork_child())
        return 0;
    const int saved_errno = errno;
    const int fd = atomic_load_explicit(&descriptor, memory_order_relaxed);
    uint64_t rung;
    if (fd >= 0) // first: what comes from here on rings again
        syscall(SYS_read, fd, &rung, sizeof rung);
    int delivered = 0;
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct message message;
        struct watch watch;
        if (!take_message(&on->messages[i], &message, &watch))
            continue;
        deliver(&watch, &message);
        delivered++;
    }
    errno = saved_errno;
    return delivered;
}

void watch_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store_explicit(&descriptor, -1, memory_order_relaxed);
    struct board *on = atomic_load_explicit(&board, memory_order_relaxed);
    if (on)
        memset(on, 0, sizeof *on);
}
