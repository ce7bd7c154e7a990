// SPDX-License-Identifier: MIT
// Watches as the program sets them, and the messages of its samples.

#include "agent/sampling/watch.h"
#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/item.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_serial = 1;

static int add_watch(enum cairn_kind kind, uint64_t threshold, cairn_visit *visit, void *context)
{
    if (!atomic_load_explicit(&watching.board, memory_order_relaxed)) {
        struct watch_board *fresh = agent_map(sizeof *fresh);
        if (!fresh)
            return -ENOMEM;
        atomic_store_explicit(&watching.board, fresh, memory_order_release);
    }
    for (unsigned i = 0; i < WATCHES; i++) {
        struct watch *watch = &watching.watches[i];
        if (atomic_load_explicit(&watch->serial, memory_order_relaxed))
            continue;
        watch->kind = kind;
        watch->threshold = threshold;
        watch->visit = visit;
        watch->context = context;
        const uint32_t serial = next_serial++ & INT32_MAX;
        atomic_store_explicit(&watch->serial, serial, memory_order_release);
        atomic_fetch_add_explicit(&watching.count, 1, memory_order_relaxed);
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
        if (atomic_load_explicit(&watching.watches[i].serial, memory_order_relaxed) !=
            (uint32_t)serial)
            continue;
        atomic_store_explicit(&watching.watches[i].serial, 0, memory_order_relaxed);
        atomic_fetch_sub_explicit(&watching.count, 1, memory_order_relaxed);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

API int cairn_watch_fd_1(void)
{
    pthread_mutex_lock(&lock);
    int fd = atomic_load_explicit(&watching.descriptor, memory_order_relaxed);
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        fd = fd < 0 ? -errno : fd;
        if (fd >= 0)
            atomic_store_explicit(&watching.descriptor, fd, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

// Takes a message, if it is ready. The watch is copied under the lock: the callback runs without
// it, and may end the watch.
static bool take_message(struct watch_message *message, struct watch_message *copy,
                         struct watch *watch)
{
    uint32_t state = WATCH_MESSAGE_READY;
    if (!atomic_compare_exchange_strong_explicit(&message->state, &state, WATCH_MESSAGE_BUSY,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    memcpy((char *)copy + sizeof copy->state, (char *)message + sizeof message->state,
           sizeof *copy - sizeof copy->state);
    atomic_store_explicit(&message->state, WATCH_MESSAGE_FREE, memory_order_release);
    bool found = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < WATCHES && !found; i++) {
        found =
            atomic_load_explicit(&watching.watches[i].serial, memory_order_relaxed) == copy->serial;
        if (found)
            memcpy(watch, &watching.watches[i], sizeof *watch);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void deliver(const struct watch *watch, const struct watch_message *message)
{
    struct cairn_frame frames[WATCH_FRAMES];
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
    struct watch_board *on = atomic_load_explicit(&watching.board, memory_order_acquire);
    if (!on || !agent.active || agent_in_vfork_child())
        return 0;
    const int saved_errno = errno;
    const int fd = atomic_load_explicit(&watching.descriptor, memory_order_relaxed);
    uint64_t rung;
    if (fd >= 0) // first: what comes from here on rings again
        syscall(SYS_read, fd, &rung, sizeof rung);
    int delivered = 0;
    for (unsigned i = 0; i < WATCH_MESSAGES; i++) {
        struct watch_message message;
        struct watch watch;
        if (!take_message(&on->messages[i], &message, &watch))
            continue;
        deliver(&watch, &message);
        delivered++;
    }
    errno = saved_errno;
    return delivered;
}

// Watches stay; their counts and the descriptor are the parent's.
void api_watch_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store_explicit(&watching.descriptor, -1, memory_order_relaxed);
    struct watch_board *on = atomic_load_explicit(&watching.board, memory_order_relaxed);
    if (on)
        memset(on, 0, sizeof *on);
}
