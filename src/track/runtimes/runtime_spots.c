// SPDX-License-Identifier: MIT
#include "track/runtimes/runtime_spots.h"
#include "base/gc_hidden.h"

#define SPOTS 16384
#define SPOT_TRUST 256 // samples for which an instruction is not looked at again

// An instruction that was met before: where it stands. An entry belongs to whoever has set its key
// to `busy`; a reader believes it if the key is the same before and after.
struct runtime_spot {
    _Atomic uintptr_t instruction; // release, acquire
    _Atomic uintptr_t code;        // the others: relaxed
    _Atomic place_t function, line;
    _Atomic uintptr_t proof;
    _Atomic uint32_t since;
};

static struct runtime_spot spots[SPOTS] GC_HIDDEN;
static _Atomic uint32_t turn; // of samples, roughly: relaxed
static const uintptr_t busy = 1;

void runtime_spots_begin(void)
{
    atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
}

static struct runtime_spot *spot_of(uintptr_t instruction)
{
    return &spots[(instruction >> 1 ^ instruction >> 15 ^ instruction >> 47 << 3) % SPOTS];
}

enum runtime_spot_age runtime_spot_recall(uintptr_t instruction, uintptr_t code,
                                          struct runtime_frame *frame)
{
    const struct runtime_spot *spot = spot_of(instruction);
    if (atomic_load_explicit(&spot->instruction, memory_order_acquire) != instruction)
        return SPOT_UNKNOWN;
    const uintptr_t of = atomic_load_explicit(&spot->code, memory_order_relaxed);
    frame->function = atomic_load_explicit(&spot->function, memory_order_relaxed);
    frame->line = atomic_load_explicit(&spot->line, memory_order_relaxed);
    frame->proof = atomic_load_explicit(&spot->proof, memory_order_relaxed);
    const uint32_t since = atomic_load_explicit(&spot->since, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (of != code || atomic_load_explicit(&spot->instruction, memory_order_relaxed) != instruction)
        return SPOT_UNKNOWN;
    const uint32_t age = atomic_load_explicit(&turn, memory_order_relaxed) - since;
    return age < SPOT_TRUST ? SPOT_FRESH : SPOT_OLD;
}

void runtime_spot_remember(uintptr_t instruction, uintptr_t code, const struct runtime_frame *frame)
{
    struct runtime_spot *spot = spot_of(instruction);
    uintptr_t key = atomic_load_explicit(&spot->instruction, memory_order_relaxed);
    if (key == busy ||
        !atomic_compare_exchange_strong_explicit(&spot->instruction, &key, busy,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&spot->code, code, memory_order_relaxed);
    atomic_store_explicit(&spot->function, frame->function, memory_order_relaxed);
    atomic_store_explicit(&spot->line, frame->line, memory_order_relaxed);
    atomic_store_explicit(&spot->proof, frame->proof, memory_order_relaxed);
    atomic_store_explicit(&spot->since, atomic_load_explicit(&turn, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&spot->instruction, instruction, memory_order_release);
}
