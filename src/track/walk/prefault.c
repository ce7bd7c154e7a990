// SPDX-License-Identifier: MIT
#include "track/walk/prefault.h"
#include "base/system/huge.h"

#define LARGE (UINT64_C(4) << 20) // a tree that is worth it

// Relaxed: a thread that comes at the same time makes the same page again, which is harmless.
_Atomic uint64_t prefault_next = LARGE;

void prefault_prepare(const struct arena *arena, uint64_t used)
{
    // The page after the one that is being used.
    const uintptr_t base = (uintptr_t)arena->base, huge = HUGE_BYTES,
                    address = (base + used + huge - 1) & -huge;
    const uint64_t begin = address - base, end = begin + huge;
    atomic_store_explicit(&prefault_next, begin + 1, memory_order_relaxed);
    // If there is none now, looking for one again and again would only cost.
    if (end > arena_kept_from(arena) || !huge_make(address))
        atomic_store_explicit(&prefault_next, UINT64_MAX, memory_order_relaxed);
}
