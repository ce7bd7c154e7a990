// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_TIMELINE_H
#define CAIRN_AGENT_THREAD_TIMELINE_H

// The timeline: each charge of time leaves its node and its time in a ring of the tree
// (live/live.h), besides what it adds to the tree. Signal-safe.

#include "agent/session/agent.h"
#include "event/clock.h"

// By the owner of the tree. `value`: 0 for the first value of time, 1 for the second.
void timeline_write(struct live_thread *record, const struct live_timed *charge);

// By another thread, when the process ends.
void timeline_write_late(struct live_thread *record, ref_t node, uint64_t weight);

static inline void timeline_note(struct live_thread *record, ref_t node, unsigned value,
                                 uint64_t weight, uint64_t when)
{
    if (!agent.session->options.timeline || !weight)
        return;
    const uint32_t tid = atomic_load_explicit(&record->tid, memory_order_relaxed);
    timeline_write(record, &(struct live_timed){.time_ns = when,
                                                .weight = weight,
                                                .node = node,
                                                .origin = LIVE_ORIGIN(tid, value)});
}

// The time of a charge outside of samples; nothing without a timeline.
static inline uint64_t timeline_now(void)
{
    return agent.session->options.timeline ? clock_now(LIVE_EVENT_WALL) : 0;
}

#endif
