// SPDX-License-Identifier: MIT
#include "unwind/stack.h"
#include "loadmap/loadmap.h"
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
// Asked for at a time. A coroutine's stack stays while it is walked, but what lies above it may
// be unmapped by another thread: do not claim more than the next frames are likely to need.
#define PAGES_AHEAD 4

static bool on_alternate_stack(uintptr_t address, struct unwind_bounds *bounds)
{
    stack_t stack;
    int saved = errno;
    long failed = syscall(SYS_sigaltstack, NULL, &stack);
    errno = saved;
    if (failed || (stack.ss_flags & SS_DISABLE))
        return false;
    *bounds =
        (struct unwind_bounds){(uintptr_t)stack.ss_sp, (uintptr_t)stack.ss_sp + stack.ss_size};
    // Its pages are trusted only while it is in use.
    return (stack.ss_flags & SS_ONSTACK) && stack_holds(bounds, address);
}

bool stack_move(struct unwind_cursor *cursor, uintptr_t address)
{
    if (stack_holds(&cursor->bounds, address)) {
        stack_set_region(cursor, cursor->bounds);
        return true;
    }
    struct unwind_bounds alternate;
    if (on_alternate_stack(address, &alternate)) {
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
