// SPDX-License-Identifier: MIT
#include "base/arena.h"
#include <stdbool.h>

// Of a budget: so much at a time, and at first.
#define PIECE (INT64_C(1) << 20)
#define FIRST_PIECE (INT64_C(256) << 10)

static size_t round_up(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

void arena_init(struct arena *arena, void *base, size_t reserved, size_t limit)
{
    arena->base = base;
    arena->bytes = limit;
    arena->budget = NULL;
    atomic_store_explicit(&arena->ahead, 0, memory_order_relaxed);
    struct arena_head *head = arena_head(arena);
    const size_t reachable = (size_t)ARENA_MOST_REF * 8;
    head->limit = limit < reachable ? limit : reachable;
    head->kept = 0;
    atomic_store_explicit(&head->refused, 0, memory_order_relaxed);
    atomic_store_explicit(&head->granted, 0, memory_order_relaxed);
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

// All of the budget is relaxed: numbers that nothing else hangs on.
static bool take_from_budget(struct arena *arena, int64_t bytes)
{
    int64_t left = atomic_load_explicit(arena->budget, memory_order_relaxed);
    do
        if (left < bytes)
            return false;
    while (!atomic_compare_exchange_weak_explicit(arena->budget, &left, left - bytes,
                                                  memory_order_relaxed, memory_order_relaxed));
    atomic_fetch_add_explicit(&arena_head(arena)->granted, (uint64_t)bytes, memory_order_relaxed);
    return true;
}

// False: the budget is used up.
static bool cover(struct arena *arena, int64_t bytes)
{
    if (!arena->budget)
        return true;
    const int64_t missing =
        bytes - atomic_fetch_sub_explicit(&arena->ahead, bytes, memory_order_relaxed);
    if (missing <= 0)
        return true;
    int64_t piece = missing < PIECE ? PIECE : missing;
    if (!take_from_budget(arena, piece)) {
        piece = missing; // the last of it
        if (!take_from_budget(arena, piece)) {
            atomic_fetch_add_explicit(&arena->ahead, bytes, memory_order_relaxed);
            return false;
        }
    }
    atomic_fetch_add_explicit(&arena->ahead, piece, memory_order_relaxed);
    return true;
}

void arena_share(struct arena *arena, _Atomic int64_t *budget)
{
    struct arena_head *head = arena_head(arena);
    const uint64_t used = atomic_load_explicit(&head->used, memory_order_relaxed);
    arena->budget = budget;
    atomic_store_explicit(&arena->ahead, FIRST_PIECE - (int64_t)used, memory_order_relaxed);
    atomic_fetch_sub_explicit(budget, FIRST_PIECE, memory_order_relaxed);
    atomic_store_explicit(&head->granted, FIRST_PIECE, memory_order_relaxed);
    const int64_t kept = (int64_t)head->kept;
    if (kept > FIRST_PIECE && (kept > atomic_load_explicit(budget, memory_order_relaxed) / 2 ||
                               !take_from_budget(arena, kept)))
        head->kept = FIRST_PIECE;
}

static uint64_t budget_room(const struct arena *arena)
{
    if (!arena->budget)
        return UINT64_MAX;
    const int64_t left = atomic_load_explicit(arena->budget, memory_order_relaxed),
                  ahead = atomic_load_explicit(&arena->ahead, memory_order_relaxed),
                  room = (left > 0 ? left : 0) + ahead;
    return room > 0 ? (uint64_t)room : 0;
}

uint64_t arena_room(const struct arena *arena)
{
    const uint64_t room = room_between(arena, 0, arena_kept_from(arena)),
                   shared = budget_room(arena);
    return room < shared ? room : shared;
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
    ref_t ref = 0;
    bytes = round_up(bytes);
    if (cover(arena, (int64_t)bytes)) {
        ref = alloc_between(arena, 0, arena_kept_from(arena), bytes);
        if (!ref && arena->budget)
            atomic_fetch_add_explicit(&arena->ahead, (int64_t)bytes, memory_order_relaxed);
    }
    if (!ref)
        atomic_fetch_add_explicit(&arena_head(arena)->refused, 1, memory_order_relaxed);
    return ref;
}

ref_t arena_alloc_kept(struct arena *arena, size_t bytes)
{
    return alloc_between(arena, arena_kept_from(arena), arena_limit(arena), bytes);
}
