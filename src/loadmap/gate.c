// SPDX-License-Identifier: MIT
#include "loadmap/gate.h"
#include "base/lock.h"
#include "loadmap/loadmap.h"
#include <stdatomic.h>

// Readers count themselves in one of two counters; which one is switched by a thread that wants to
// unload, so it waits for readers that were inside before and not for new ones.
//
// Reader: counter++ then look at `closing`. Unloader: closing++ then look at the counters. Both
// sequentially consistent: either the reader sees an unloader and avoids modules that can vanish,
// or the unloader sees the reader and waits.
static struct {
    _Atomic uint32_t inside[2];
    _Atomic uint32_t current;
    _Atomic uint32_t closing;
    struct lock draining; // held by the unloader that waits
} gate;

// Initial-exec: the first access of any other kind may allocate, and this is used in signal
// handlers.
static __thread struct {
    unsigned depth, counter;
    unsigned
        unloads; // before_unload without its after_unload (destructors may unload, so they nest)
} self __attribute__((tls_model("initial-exec")));

// A signal may come between any two lines of these: its own pairs leave `depth` as it was, and do
// not touch `counter` unless `depth` was 0, when it means nothing.
void loadmap_enter(void)
{
    if (self.depth != 0) {
        self.depth++;
        return;
    }
    unsigned counter = atomic_load(&gate.current) & 1;
    atomic_fetch_add(&gate.inside[counter], 1);
    self.depth = 1;
    atomic_signal_fence(memory_order_seq_cst);
    self.counter = counter;
}

void loadmap_leave(void)
{
    if (self.depth != 1) {
        self.depth--;
        return;
    }
    unsigned counter = self.counter;
    atomic_signal_fence(memory_order_seq_cst);
    self.depth = 0;
    atomic_fetch_sub(&gate.inside[counter], 1);
}

bool gate_is_closing(void)
{
    return atomic_load(&gate.closing) != 0;
}

static void drain_one(void)
{
    unsigned old = atomic_fetch_xor(&gate.current, 1) & 1;
    // A thread that unloads from within a walk (a program's handler on top of ours) must not wait
    // for itself.
    const uint32_t own = self.depth && self.counter == old;
    struct patience patience = {0};
    uint32_t readers;
    while ((readers = atomic_load(&gate.inside[old])) > own && patience_lasts(&patience)) {
    }
    // A thread that has not left by now has ended, in a way that the agent did not see. (Without an
    // end there was no wait: the readers are in another process.)
    if (readers > own && patience.end)
        atomic_fetch_sub(&gate.inside[old], readers - own);
}

void loadmap_before_unload(void)
{
    self.unloads++;
    atomic_fetch_add(&gate.closing, 1);
    if (lock_take(&gate.draining))
        return;
    drain_one();
    drain_one();
    lock_release(&gate.draining);
}

void gate_open(void)
{
    if (self.unloads == 0)
        return;
    self.unloads--;
    atomic_fetch_sub(&gate.closing, 1);
}

void gate_after_fork(void)
{
    // The thread that forked is the only one here: the others' work will not end.
    atomic_store(&gate.inside[0], 0);
    atomic_store(&gate.inside[1], 0);
    atomic_store(&gate.closing, self.unloads);
    lock_break(&gate.draining);
    self.depth = 0;
}
