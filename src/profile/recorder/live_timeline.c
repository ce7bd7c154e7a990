// SPDX-License-Identifier: MIT
#include "profile/recorder/live_timeline.h"
#include "profile/loader.h"
#include <stdlib.h>

enum { MOST_CAPACITY = 1 << 20, MOST_RINGS = 64 };

static const void *record_at(const struct arena *arena, uint64_t bytes, ref_t ref, uint64_t size)
{
    return ref && (uint64_t)ref * 8 + size <= bytes ? arena_at(arena, ref) : NULL;
}

// A ring that lies in the slice as a whole, and its capacity; NULL: there is none.
static const struct live_timeline_ring *ring_at(const struct arena *arena, uint64_t bytes,
                                                ref_t ref, uint32_t *capacity)
{
    const struct live_timeline_ring *ring = record_at(arena, bytes, ref, sizeof *ring);
    *capacity = ring ? __atomic_load_n(&ring->capacity, __ATOMIC_RELAXED) : 0;
    const uint64_t size = sizeof *ring + *capacity * sizeof *ring->entries;
    return ring && *capacity && *capacity <= MOST_CAPACITY && !(*capacity & (*capacity - 1)) &&
                   record_at(arena, bytes, ref, size)
               ? ring
               : NULL;
}

static void keep(struct live_timeline_told *taken, const struct live_timed *charge)
{
    if (profile_grow_by_one((void **)&taken->new, taken->count, sizeof *taken->new))
        taken->new[taken->count++] = (struct live_timed){
            .time_ns = __atomic_load_n(&charge->time_ns, __ATOMIC_RELAXED),
            .weight = __atomic_load_n(&charge->weight, __ATOMIC_RELAXED),
            .node = __atomic_load_n(&charge->node, __ATOMIC_RELAXED),
            .origin = __atomic_load_n(&charge->origin, __ATOMIC_RELAXED),
        };
    else
        taken->lost++;
}

// Where the entries of a ring end: where those of the next one begin, or at the count, which is that
// of the entries written, or begun.
static uint64_t end_of(const _Atomic uint64_t *counter, const struct live_timeline_ring *ring,
                       const struct arena *arena, uint64_t bytes, ref_t *next)
{
    // Acquire, both: the entries below the count are whole, and a ring that was gone on in before
    // one of them is linked.
    const uint64_t count = atomic_load_explicit(counter, memory_order_acquire);
    *next = atomic_load_explicit(&ring->next, memory_order_acquire);
    const struct live_timeline_ring *following = record_at(arena, bytes, *next, sizeof *following);
    const uint64_t first =
        following ? __atomic_load_n(&following->first, __ATOMIC_RELAXED) : UINT64_MAX;
    return first < count ? first : count;
}

// Leaves out the first of the entries that were taken just now: they were overwritten meanwhile.
static void leave_out(struct live_timeline_told *taken, size_t from, uint64_t count)
{
    if (count > taken->count - from)
        count = taken->count - from;
    memmove(&taken->new[from], &taken->new[from + count],
            (taken->count - from - count) * sizeof *taken->new);
    taken->count -= count;
    taken->lost += count;
}

// Takes the entries of one ring; true if there are more in the next one.
static bool take_ring(struct live_timeline_told *taken, const struct live_timeline *timeline,
                      const struct arena *arena, uint64_t bytes)
{
    uint32_t capacity;
    const struct live_timeline_ring *ring = ring_at(arena, bytes, taken->ring, &capacity);
    if (!ring) {
        taken->damaged = taken->ring != 0;
        return false;
    }
    ref_t next;
    const uint64_t end = end_of(&timeline->count, ring, arena, bytes, &next);
    if (end < taken->next) {
        taken->damaged = true;
        return false;
    }
    uint64_t at = end - taken->next > capacity ? end - capacity : taken->next;
    taken->lost += at - taken->next;
    const size_t from = taken->count;
    const uint64_t first = at;
    for (; at < end; at++)
        keep(taken, &ring->entries[at & (capacity - 1)]);
    // The fence pairs with that of the owner: what we have read of an entry that was overwritten
    // makes visible that it was begun.
    atomic_thread_fence(memory_order_acquire);
    const uint64_t now = end_of(&timeline->begun, ring, arena, bytes, &next);
    const uint64_t gone = now > capacity ? now - capacity : 0;
    if (gone > first)
        leave_out(taken, from, gone - first);
    taken->next = end;
    if (next && now == end)
        taken->ring = next;
    return next != 0;
}

static void take_late(struct live_timeline_told *taken, const struct live_timeline *timeline,
                      const struct arena *arena, uint64_t bytes)
{
    const ref_t head = atomic_load_explicit(&timeline->late, memory_order_acquire);
    const struct live_late *late;
    uint32_t left = LIVE_MOST_LISTED;
    for (ref_t ref = head;
         ref != taken->late && left-- && (late = record_at(arena, bytes, ref, sizeof *late));
         ref = __atomic_load_n(&late->next, __ATOMIC_RELAXED))
        keep(taken, &late->charge);
    taken->late = head;
}

void live_timeline_take(struct live_timeline_told *taken, const struct arena *arena, uint64_t bytes,
                        const struct live_timeline *timeline)
{
    if (taken->damaged)
        return;
    if (!taken->ring)
        taken->ring = atomic_load_explicit(&timeline->first, memory_order_acquire);
    for (unsigned i = 0; i < MOST_RINGS && take_ring(taken, timeline, arena, bytes); i++)
        ;
    take_late(taken, timeline, arena, bytes);
    const uint64_t unheld = atomic_load_explicit(&timeline->unheld, memory_order_relaxed);
    taken->lost += unheld - taken->unheld;
    taken->unheld = unheld;
}

void live_timeline_free(struct live_timeline_told *taken)
{
    free(taken->new);
}
