// SPDX-License-Identifier: MIT
#include "agent/sampling/watch.h"
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEEPEST (1 << 20) // a longer path was scribbled over, and has no end

struct watching watching = {.descriptor = -1};

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
static uint64_t count(struct watch_board *on, uint64_t key, uint64_t weight)
{
    struct watch_counter *bucket = on->counters[key >> 40 & (WATCH_BUCKETS - 1)],
                         *smallest = bucket;
    for (unsigned i = 0; i < WATCH_WAYS; i++) {
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
    const int fd = atomic_load_explicit(&watching.descriptor, memory_order_relaxed);
    const uint64_t one = 1;
    struct stat status;
    if (fd < 0 || syscall(SYS_fstat, fd, &status) || (status.st_mode & S_IFMT))
        return;
    syscall(SYS_write, fd, &one, sizeof one);
}

static void leave_message(struct watch_board *on, uint32_t serial, const struct node *frame,
                          uint64_t value)
{
    for (unsigned i = 0; i < WATCH_MESSAGES; i++) {
        struct watch_message *message = &on->messages[i];
        uint32_t state = WATCH_MESSAGE_FREE;
        // Acquire and release: a message is read whole before it is written again.
        if (!atomic_compare_exchange_strong_explicit(&message->state, &state, WATCH_MESSAGE_BUSY,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        message->serial = serial;
        message->value = value;
        message->depth = message->count = 0;
        for (; frame && message->depth < DEEPEST; frame = frame_of(frame->parent), message->depth++)
            if (message->count < WATCH_FRAMES)
                message->edges[message->count++] = edge_of(frame);
        atomic_store_explicit(&message->state, WATCH_MESSAGE_READY, memory_order_release);
        ring();
        return;
    }
}

void watch_sample(ref_t node, uint64_t weight)
{
    struct watch_board *on = atomic_load_explicit(&watching.board, memory_order_acquire);
    const struct node *frame = frame_of(node);
    if (!on || !frame)
        return;
    for (unsigned i = 0; i < WATCHES; i++) {
        const struct watch *watch = &watching.watches[i];
        const uint32_t serial = atomic_load_explicit(&watch->serial, memory_order_acquire);
        if (!serial)
            continue;
        const uint64_t threshold = watch->threshold;
        const uint64_t before = count(on, key_of(watch, serial, frame), weight);
        if (before < threshold && before + weight >= threshold)
            leave_message(on, serial, frame, before + weight);
    }
}
