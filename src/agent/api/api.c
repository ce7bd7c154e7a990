// SPDX-License-Identifier: MIT
// Start and stop by the program itself.

#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/options.h"
#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

// Held by calls that start or stop. Never in a handler.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void api_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    api_watch_after_fork();
    api_context_after_fork();
}

static int refuse(struct api_error *error, int number, const char *why)
{
    api_refuse(error, why, "", 0, "");
    return number;
}

static int start_own(const char *options, struct api_error *error)
{
    struct live_session session;
    int result = api_parse_options(options, &session, error);
    if (result)
        return result;
    atomic_store_explicit(&session.recording, 1, memory_order_relaxed);
    result = agent_begin_own(&session);
    if (result)
        return refuse(error, result, "no memory to record in: ask for less with memory=SIZE");
    thread_list_begin_all();
    const struct thread *self = thread_self;
    if (self && !atomic_load_explicit(&self->begun, memory_order_relaxed)) {
        atomic_store(&agent.paused, 1);
        return refuse(error, -ENOTSUP,
                      "there is no clock for this event here, or no memory for a tree");
    }
    return 0;
}

// Checks the options of a second start: only the rate may differ.
static int check_again(const char *options, struct api_error *error)
{
    struct live_session asked;
    int result = options && agent.own ? api_parse_options(options, &asked, error) : -EALREADY;
    if (result)
        return result == -EALREADY ? 0 : result;
    struct live_options *now = &agent.session->options;
    const uint64_t period = asked.options.period_ns;
    asked.options.period_ns = now->period_ns;
    if (memcmp(&asked.options, now, sizeof *now) || asked.slice_bytes != agent.session->slice_bytes)
        return refuse(error, -EBUSY,
                      "a recording has begun with other options: only its rate can change");
    // Relaxed: clocks that run keep their period until they are opened again.
    __atomic_store_n(&now->period_ns, period, __ATOMIC_RELAXED);
    return 0;
}

static int start(const char *options, struct api_error *error)
{
    // A library that was opened late brings us in, but its program found libc's functions first:
    // threads would come and go unseen, and block our signals.
    if (!agent.active && !agent_is_interposed())
        return refuse(
            error, -ENOTSUP,
            "the program itself must be linked with libcairn, not a library that it opens");
    if (!agent.armed)
        return refuse(error, -ENOTSUP, "the agent could not start in this process");
    if (!agent.active) {
        atomic_store(&agent.paused, 0);
        return start_own(options, error);
    }
    int result = check_again(options, error);
    if (result)
        return result;
    // Sequentially consistent: see thread_rest().
    atomic_store(&agent.paused, 0);
    thread_list_wake_all();
    return 0;
}

API int cairn_start_1(const char *options, char *text, size_t bytes)
{
    struct api_error error = {text, bytes};
    if (text && bytes)
        *text = 0;
    if (agent_in_vfork_child())
        return refuse(&error, -EPERM, "not in a child of vfork");
    const int saved_errno = errno;
    pthread_mutex_lock(&lock);
    int result = start(options, &error);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return result;
}

API int cairn_stop_1(void)
{
    if (!agent.active || agent_in_vfork_child())
        return 0;
    // Each thread closes its clock at its next tick.
    atomic_store(&agent.paused, 1);
    return 0;
}

API int cairn_running_1(void)
{
    return agent.active && !agent_in_vfork_child() && agent_is_recording();
}

API int cairn_totals_1(struct cairn_totals *totals)
{
    if (!agent.active)
        return 0;
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next) {
        if (api_is_asked_for(record)) {
            totals->value += __atomic_load_n(&record->stats.cost_ns, __ATOMIC_RELAXED);
            totals->samples += __atomic_load_n(&record->stats.samples, __ATOMIC_RELAXED);
            totals->lost += __atomic_load_n(&record->stats.lost, __ATOMIC_RELAXED);
            totals->trees++;
        }
    }
    totals->bytes = atomic_load_explicit(&arena_head(&agent.arena)->used, memory_order_relaxed);
    return 0;
}
