// SPDX-License-Identifier: MIT
#include "unwind/stack.h"
#include "loadmap/loadmap.h"

#define PAGE ((uintptr_t)4096)
// Asked for at a time. A coroutine's stack stays while it is walked, but what lies above it may
// be unmapped by another thread: do not claim more than the next frames are likely to need.
#define PAGES_AHEAD 4

__thread struct unwind_bounds stack_alternate, stack_of_handlers;

// How far down the thread's own stack is known to be mapped. Its own handlers alone use it.
static __thread uintptr_t mapped_low = UINTPTR_MAX;

uintptr_t stack_mapped_from(uintptr_t sp, uintptr_t high)
{
    if (sp >= mapped_low)
        return sp;
    if (!loadmap_readable(sp & ~(uintptr_t)7))
        return mapped_low < high ? mapped_low : high;
    mapped_low = sp & ~(PAGE - 1);
    return sp;
}

// An alternate stack's pages are trusted only while it is in use.
static bool find_alternate_stack(const struct unwind_cursor *cursor, uintptr_t address,
                                 struct unwind_bounds *bounds)
{
    *bounds = stack_holds(&stack_of_handlers, address) ? stack_of_handlers : stack_alternate;
    return stack_holds(bounds, address) && stack_holds(bounds, cursor->sp);
}

bool stack_move(struct unwind_cursor *cursor, uintptr_t address)
{
    if (stack_holds(&cursor->bounds, address)) {
        stack_set_region(cursor, cursor->bounds);
        return true;
    }
    struct unwind_bounds alternate;
    if (find_alternate_stack(cursor, address, &alternate)) {
        stack_set_region(cursor, alternate);
        return true;
    }
    if (address % 8 || address < PAGE || !loadmap_readable(address))
        return false;
    uintptr_t low = address & ~(PAGE - 1), high = low + PAGE;
    for (unsigned i = 1; i < PAGES_AHEAD && loadmap_readable(high); i++)
        high += PAGE;
    stack_set_region(cursor, (struct unwind_bounds){low, high});
    return true;
}
