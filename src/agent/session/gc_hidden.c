// SPDX-License-Identifier: MIT
// Makes the tables writable that the program headers say nothing of: see base/gc_hidden.h.

#include "agent/session/agent.h"
#include <sys/mman.h>

extern char gc_hidden_begin[] __attribute__((visibility("hidden")));
extern char gc_hidden_end[] __attribute__((visibility("hidden")));

bool gc_hidden_is_open;

// Before all that use them.
__attribute__((constructor(101))) static void open_tables(void)
{
    const uintptr_t begin = (uintptr_t)gc_hidden_begin, end = (uintptr_t)gc_hidden_end;
    gc_hidden_is_open = !mprotect(gc_hidden_begin, end - begin, PROT_READ | PROT_WRITE);
}
