// SPDX-License-Identifier: MIT
#include "base/arena.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

void arena_init(struct arena *arena, void *base, size_t reserved, size_t limit)
{
    arena->base = base;
    struct arena_head *head = arena_head(arena);
    const size_t reachable = (size_t)UINT32_MAX * 8;
    head->limit = limit < reachable ? limit : reachable;
    atomic_store_explicit(&head->refused, 0, memory_order_relaxed);
    // Release: a reader that sees used > 0 sees the limit as well.
    atomic_store_explicit(&head->used, round_up(reserved), memory_order_release);
}

ref_t arena_alloc(struct arena *arena, size_t bytes)
{
    struct arena_head *head = arena_head(arena);
    bytes = round_up(bytes);
    uint64_t start = atomic_load_explicit(&head->used, memory_order_relaxed);
    do {
        if (start + bytes > head->limit) {
            atomic_fetch_add_explicit(&head->refused, 1, memory_order_relaxed);
            return 0;
        }
        // Relaxed: the block is private to the caller until the caller publishes it.
    } while (!atomic_compare_exchange_weak_explicit(&head->used, &start, start + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return (ref_t)(start / 8);
}
