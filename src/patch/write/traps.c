// SPDX-License-Identifier: MIT
#include "patch/write/traps.h"
#include "base/lock.h"
#include <stdatomic.h>
#include <stdint.h>

// Traps are in the code, and threads that must not meet one. Sequentially consistent: of one who
// begins to write and one that blocks traps, one sees the other.
static _Atomic bool trapping;
static _Atomic uint32_t holds;

bool traps_hold(void)
{
    atomic_fetch_add(&holds, 1);
    if (!atomic_load(&trapping))
        return true;
    atomic_fetch_sub(&holds, 1);
    return false;
}

void traps_hold_for_good(void)
{
    struct patience patience = {0};
    while (!traps_hold())
        if (!patience_lasts(&patience))
            return;
}

void traps_release(void)
{
    atomic_fetch_sub(&holds, 1);
}

bool traps_begin(void)
{
    atomic_store(&trapping, true);
    return !atomic_load(&holds);
}

void traps_end(void)
{
    atomic_store(&trapping, false);
}
