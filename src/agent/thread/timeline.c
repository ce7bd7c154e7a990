// SPDX-License-Identifier: MIT

#include "agent/thread/timeline.h"
#include "base/likely.h"

// An entry is overwritten when it is older than this: the recorder reads once in two seconds, at
// least.
#define HOLD_NS (UINT64_C(4) * 1000000000)

enum { FIRST_ENTRIES = 128, MOST_ENTRIES = 1 << 16 };

// The place of an entry. The program may have written over the numbers: NULL if they lead out of
// the arena.
static struct live_timed *place_of(const struct live_timeline *timeline, uint64_t number)
{
    const uint64_t at = (uint64_t)timeline->ring * 8 + sizeof(struct live_timeline_ring) +
                        (number & timeline->mask) * sizeof(struct live_timed);
    return timeline->ring && at + sizeof(struct live_timed) <= agent.arena.bytes
               ? (struct live_timed *)(agent.arena.base + at)
               : NULL;
}

static void go_on_in(struct live_timeline *timeline, ref_t ref, uint32_t capacity, uint64_t first)
{
    struct live_timeline_ring *ring = arena_at(&agent.arena, ref),
                              *before = arena_find(&agent.arena, timeline->ring, sizeof *before);
    ring->capacity = capacity;
    ring->first = first;
    // Release: a reader that follows the reference finds the fields above.
    atomic_store_explicit(before ? &before->next : &timeline->first, ref, memory_order_release);
    timeline->ring = ref;
    timeline->mask = capacity - 1;
}

// Asked once in a quarter of a ring: whether its next quarter is old enough to be overwritten.
static void make_room(struct live_timeline *timeline, uint64_t count, uint64_t now)
{
    const struct live_timed *youngest = place_of(timeline, count + (timeline->mask >> 2));
    const uint32_t capacity = youngest ? 2 * (timeline->mask + 1) : FIRST_ENTRIES;
    if (youngest && (now - youngest->time_ns >= HOLD_NS || capacity > MOST_ENTRIES))
        return;
    const ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_timeline_ring) +
                                                    capacity * sizeof(struct live_timed));
    if (ref)
        go_on_in(timeline, ref, capacity, count);
}

void timeline_write(struct live_thread *record, const struct live_timed *charge)
{
    struct live_timeline *timeline = &record->timeline;
    const uint64_t count = atomic_load_explicit(&timeline->count, memory_order_relaxed);
    if (UNLIKELY((count & timeline->mask >> 2) == 0))
        make_room(timeline, count, charge->time_ns);
    struct live_timed *place = place_of(timeline, count);
    if (UNLIKELY(!place)) {
        atomic_fetch_add_explicit(&timeline->unheld, 1, memory_order_relaxed);
        return;
    }
    // A reader that sees a part of this entry also sees that it was begun, and knows that the one
    // that lay here is gone.
    atomic_store_explicit(&timeline->begun, count + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    __atomic_store_n(&place->time_ns, charge->time_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&place->weight, charge->weight, __ATOMIC_RELAXED);
    __atomic_store_n(&place->node, charge->node, __ATOMIC_RELAXED);
    __atomic_store_n(&place->origin, charge->origin, __ATOMIC_RELAXED);
    atomic_store_explicit(&timeline->count, count + 1, memory_order_release);
}

void timeline_write_late(struct live_thread *record, ref_t node, uint64_t weight)
{
    if (!agent.session->options.timeline)
        return;
    const ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_late));
    if (!ref) {
        atomic_fetch_add_explicit(&record->timeline.unheld, 1, memory_order_relaxed);
        return;
    }
    struct live_late *late = arena_at(&agent.arena, ref);
    const uint32_t tid = atomic_load_explicit(&record->tid, memory_order_relaxed);
    late->charge = (struct live_timed){.time_ns = clock_now(LIVE_EVENT_WALL),
                                       .weight = weight,
                                       .node = node,
                                       .origin = LIVE_ORIGIN(tid, 0)};
    live_push(&record->timeline.late, &late->next, ref);
}
