// SPDX-License-Identifier: MIT
#include "track/context_id/handle_table.h"
#include "base/lock.h"

#define TABLE_PART 16 // of the slice, at most

static struct {
    struct arena *arena;
    struct live_contexts *live;
    struct intern intern;
    struct lock lock; // its holder has signals blocked
} handles;

void handles_start(struct arena *arena, struct live_contexts *live)
{
    // In a child, the meaning of the parent's numbers is not known here: its own are others.
    live->first = handles.live ? handles.live->first + handles.intern.used : 0;
    handles.arena = arena;
    handles.live = live;
    handles.intern = (struct intern){0};
    lock_break(&handles.lock);
}

struct live_contexts *handles_live(void)
{
    return handles.live;
}

const struct intern *handles_table(uint32_t *first)
{
    if (!handles.live || !atomic_load_explicit(&handles.live->nodes, memory_order_acquire))
        return NULL;
    *first = handles.live->first;
    return &handles.intern;
}

bool handles_lock(void)
{
    return !lock_take(&handles.lock);
}

void handles_unlock(void)
{
    lock_release(&handles.lock);
}

struct intern *handles_intern(void)
{
    if (handles.intern.node)
        return &handles.intern;
    const size_t bytes = intern_bytes(arena_head(handles.arena)->limit / TABLE_PART);
    struct intern intern;
    const ref_t ref = arena_alloc(handles.arena, bytes);
    if (!ref || intern_init(&intern, arena_at(handles.arena, ref), bytes) ||
        handles.live->first > UINT32_MAX - intern.capacity)
        return NULL;
    handles.intern = intern;
    handles.live->capacity = intern.capacity;
    // Release: a reader that finds the nodes knows how many there can be.
    atomic_store_explicit(&handles.live->nodes, ref, memory_order_release);
    return &handles.intern;
}

uint64_t handles_number(uint32_t stamp, uint32_t point)
{
    return point ? (uint64_t)stamp << 32 | (handles.live->first + point) : 0;
}

struct live_sections *handles_reserve(size_t bytes, ref_t *ref)
{
    struct live_sections *sections = NULL;
    *ref = bytes < UINT32_MAX ? arena_alloc(handles.arena, sizeof *sections + bytes) : 0;
    if (!*ref)
        return NULL;
    sections = arena_at(handles.arena, *ref);
    sections->bytes = (uint32_t)bytes;
    return sections;
}

void handles_publish(struct live_sections *sections, ref_t ref)
{
    live_push(&handles.live->sections, &sections->next, ref);
}
