// SPDX-License-Identifier: MIT
// Calls of the program that the walk tracker must know of: libraries that go, and looks at the
// stack.

#include "agent/real.h"
#include "agent/thread.h"
#include "loadmap/loadmap.h"
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

INTERPOSED int dlclose(void *handle)
{
    if (!agent.active)
        return REAL(dlclose)(handle);
    loadmap_before_unload();
    int result = REAL(dlclose)(handle);
    loadmap_after_unload();
    return result;
}

// While the program looks at its own stack, there is no marker on it. Without these the marker's
// pseudo frame would be one line more in a backtrace.
static struct walker *clear_stack(void)
{
    struct walker *walker = walk_current;
    if (!walker)
        return NULL;
    walker->suspended++;
    atomic_signal_fence(memory_order_seq_cst); // no sample may place it again after it is lifted
    walk_lift(walker);
    return walker;
}

static void release_stack(struct walker *walker)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (walker)
        walker->suspended--;
}

INTERPOSED int backtrace(void **buffer, int size)
{
    if (size <= 0 || !walk_current)
        return REAL(backtrace)(buffer, size);
    struct walker *walker = clear_stack();
    // One more than asked for: the first is the frame of this very function.
    void **frames = alloca((size_t)(size + 1) * sizeof *frames);
    int count = REAL(backtrace)(frames, size + 1) - 1;
    release_stack(walker);
    if (count > 0)
        memcpy(buffer, frames + 1, (size_t)count * sizeof *buffer);
    return count > 0 ? count : 0;
}
