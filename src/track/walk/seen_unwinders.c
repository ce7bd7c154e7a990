// SPDX-License-Identifier: MIT
#include "track/walk/seen_unwinders.h"
#include <stdatomic.h>
#include <stddef.h>

// Only ever set; relaxed: threads learn of it with the next sample.
static _Atomic bool forbidden, remembering;

static void (*noted)(void);

void program_unwinder_start(void (*note)(void))
{
    noted = note;
}

void program_unwinder_forbid_markers(void)
{
    if (!atomic_exchange_explicit(&forbidden, true, memory_order_relaxed) && noted)
        noted();
}

bool program_unwinder_forbids_markers(void)
{
    return atomic_load_explicit(&forbidden, memory_order_relaxed);
}

void program_unwinder_expect_memory(void)
{
    atomic_store_explicit(&remembering, true, memory_order_relaxed);
    program_unwinder_forbid_markers();
}

bool program_unwinder_has_memory(void)
{
    return atomic_load_explicit(&remembering, memory_order_relaxed);
}
