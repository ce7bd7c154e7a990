// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_STACK_H
#define CAIRN_UNWIND_STACK_H

// Loads from the stack that the walk is on. Inside of the cursor's region they are direct;
// elsewhere the region moves first: to the thread's own stack, to the alternate signal stack, or to
// pages that the kernel was asked about.

#include "unwind/unwind.h"

// The alternate stack of the calling thread, as the program has set it, and the one that our
// handlers are entered on; high is 0 where there is none. The thread itself writes them, and its
// handlers read.
extern __thread struct unwind_bounds stack_alternate,
    stack_of_handlers __attribute__((visibility("hidden")));

// A word of the program's stack: of any type, and not aligned if the stack pointer is odd.
typedef uintptr_t stack_word __attribute__((aligned(1), may_alias));

static inline bool stack_holds(const struct unwind_bounds *bounds, uintptr_t address)
{
    return address >= bounds->low && address < bounds->high && bounds->high - address >= 8;
}

static inline bool stack_in_region(const struct unwind_cursor *cursor, uintptr_t address)
{
    return address - cursor->region < cursor->reach;
}

static inline void stack_set_region(struct unwind_cursor *cursor, struct unwind_bounds bounds)
{
    bool empty = bounds.high < bounds.low || bounds.high - bounds.low < 8;
    cursor->region = empty ? 0 : bounds.low;
    cursor->reach = empty ? 0 : bounds.high - bounds.low - 7;
}

// The first address, from the stack pointer of interrupted code up, that is mapped for sure, on a
// thread's own stack that ends at `high`. The code may have moved the stack pointer into a guard
// page, and not have touched it yet.
uintptr_t stack_mapped_from(uintptr_t sp, uintptr_t high);

// Moves the region to where the word at address is. False if it cannot be read.
bool stack_move(struct unwind_cursor *cursor, uintptr_t address);

static inline bool stack_load(struct unwind_cursor *cursor, uintptr_t address, uintptr_t *value)
{
    if (__builtin_expect(!stack_in_region(cursor, address), 0) && !stack_move(cursor, address))
        return false;
    *value = *(const stack_word *)address;
    return true;
}

#endif
