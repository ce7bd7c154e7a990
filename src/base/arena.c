// SPDX-License-Identifier: MIT
#include "base/arena.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

void arena_init(struct arena *arena, void *base, size_t reserved, size_t limit)
{
    arena->base = base;
    arena->bytes = limit;
    struct arena_head *head = arena_head(arena);
    const size_t reachable = (size_t)ARENA_MOST_REF * 8;
    head->limit = limit < reachable ? limit : reachable;
    head->kept = 0;
    atomic_store_explicit(&head->refused, 0, memory_order_relaxed);
    // Release: a reader that sees used > 0 sees the limit as well.
    atomic_store_explicit(&head->used, round_up(reserved), memory_order_release);
}

void arena_keep_back(struct arena *arena, size_t bytes)
{
    struct arena_head *head = arena_head(arena);
    head->kept = round_up(bytes < head->limit ? bytes : head->limit);
}

static uint64_t room_between(const struct arena *arena, uint64_t from, uint64_t to)
{
    uint64_t used = atomic_load_explicit(&arena_head(arena)->used, memory_order_relaxed);
    if (used < from)
        used = from;
    return used < to ? to - used : 0;
}

uint64_t arena_room(const struct arena *arena)
{
    return room_between(arena, 0, arena_kept_from(arena));
}

uint64_t arena_kept_room(const struct arena *arena)
{
    return room_between(arena, arena_kept_from(arena), arena_limit(arena));
}

static ref_t alloc_between(struct arena *arena, uint64_t from, uint64_t to, size_t bytes)
{
    struct arena_head *head = arena_head(arena);
    uint64_t used = atomic_load_explicit(&head->used, memory_order_relaxed);
    uint64_t start;
    bytes = round_up(bytes);
    do {
        start = used < from ? from : used;
        if (to > arena->bytes || bytes > to || start > to - bytes)
            return 0;
        // Relaxed: the block is private to the caller until the caller publishes it.
    } while (!atomic_compare_exchange_weak_explicit(&head->used, &used, start + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return (ref_t)(start / 8);
}

ref_t arena_alloc(struct arena *arena, size_t bytes)
{
    ref_t ref = alloc_between(arena, 0, arena_kept_from(arena), bytes);
    if (!ref)
        atomic_fetch_add_explicit(&arena_head(arena)->refused, 1, memory_order_relaxed);
    return ref;
}

ref_t arena_alloc_kept(struct arena *arena, size_t bytes)
{
    return alloc_between(arena, arena_kept_from(arena), arena_limit(arena), bytes);
}
