// SPDX-License-Identifier: MIT
#include "base/system/agent_map.h"
#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)
#define BUSY 1 // a start that no range has
#define DISTANCE (UINT64_C(2) << 40)
#define AREA (UINT64_C(1) << 40)

// The start is written last, and read first: 0 is free.
static struct {
    _Atomic uintptr_t start;
    uintptr_t end;
} known[AGENT_MAP_KNOWN];

bool agent_map_locked, agent_map_without_advice;

_Atomic uint64_t agent_map_sums[AGENT_MAP_SUMS];
void (*_Atomic agent_map_changed)(void);

static void change_sums(uint64_t bytes, enum agent_map_kind kind)
{
    atomic_fetch_add_explicit(&agent_map_sums[AGENT_MAP_SPACE], bytes, memory_order_relaxed);
    if (kind == AGENT_MAP_PRIVATE)
        atomic_fetch_add_explicit(&agent_map_sums[AGENT_MAP_DATA], bytes, memory_order_relaxed);
    void (*changed)(void) = atomic_load_explicit(&agent_map_changed, memory_order_relaxed);
    if (changed)
        changed();
}

static uint64_t whole_pages(size_t bytes)
{
    return ((uint64_t)bytes + PAGE - 1) & -PAGE;
}

void *agent_map_hint(size_t bytes)
{
    // Relaxed: a number alone. Unmapped addresses are reused only when the area is used up. If a
    // hint is taken by then, the kernel does not follow it.
    static _Atomic uint64_t used;
    const uint64_t offset =
        atomic_fetch_add_explicit(&used, whole_pages(bytes), memory_order_relaxed) % AREA;
    const uintptr_t ours = (uintptr_t)&used & -PAGE;
    return ours > DISTANCE ? (void *)(ours - DISTANCE + offset) : NULL;
}

void agent_map_claim(size_t bytes, enum agent_map_kind kind)
{
    change_sums(whole_pages(bytes), kind);
}

void agent_map_release(size_t bytes, enum agent_map_kind kind)
{
    change_sums(-whole_pages(bytes), kind);
}

void agent_map_note(void *memory, size_t bytes)
{
    const uintptr_t start = (uintptr_t)memory;
    for (size_t i = 0; bytes >= AGENT_MAP_LARGE && i < AGENT_MAP_KNOWN; i++) {
        uintptr_t free = 0;
        if (!atomic_compare_exchange_strong_explicit(&known[i].start, &free, BUSY,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        known[i].end = start + bytes;
        atomic_store_explicit(&known[i].start, start, memory_order_release);
        return;
    }
}

void agent_map_hide(void *memory, size_t bytes)
{
    if (bytes >= AGENT_MAP_LARGE && !agent_map_without_advice)
        madvise(memory, bytes, MADV_DONTDUMP);
}

// All of it would be made at once, if it could be used.
static void *map_unlocked(size_t bytes)
{
    void *memory = mmap(agent_map_hint(bytes), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return MAP_FAILED;
    munlock(memory, bytes);
    if (!mprotect(memory, bytes, PROT_READ | PROT_WRITE))
        return memory;
    munmap(memory, bytes);
    return MAP_FAILED;
}

void *agent_map(size_t bytes)
{
    agent_map_claim(bytes, AGENT_MAP_PRIVATE);
    void *memory = agent_map_locked ? map_unlocked(bytes)
                                    : mmap(agent_map_hint(bytes), bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        agent_map_release(bytes, AGENT_MAP_PRIVATE);
        return NULL;
    }
    agent_map_hide(memory, bytes);
    agent_map_note(memory, bytes);
    return memory;
}

void agent_unmap(void *memory, size_t bytes)
{
    for (size_t i = 0; bytes >= AGENT_MAP_LARGE && i < AGENT_MAP_KNOWN; i++)
        // Before another mapping can be there.
        if (atomic_load_explicit(&known[i].start, memory_order_relaxed) == (uintptr_t)memory)
            atomic_store_explicit(&known[i].start, 0, memory_order_release);
    munmap(memory, bytes);
    agent_map_release(bytes, AGENT_MAP_PRIVATE);
}

size_t agent_map_list(struct agent_range range[AGENT_MAP_KNOWN])
{
    size_t count = 0;
    for (size_t i = 0; i < AGENT_MAP_KNOWN; i++) {
        const uintptr_t start = atomic_load_explicit(&known[i].start, memory_order_acquire);
        if (start > BUSY)
            range[count++] = (struct agent_range){start, known[i].end};
    }
    return count;
}
