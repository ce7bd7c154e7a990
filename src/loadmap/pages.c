// SPDX-License-Identifier: MIT
#include "loadmap/pages.h"
#include "base/gc_hidden.h"

#define PAGES 128
#define PAGE_SHIFT 12
#define KIND_BITS 2
#define TURN_BITS 26
#define PAGE_BITS (64 - TURN_BITS - KIND_BITS)

// Page, turn and kind in one word, so that no reader sees half of an entry. Relaxed: each stands
// for itself.
static _Atomic uint64_t pages[PAGES] GC_HIDDEN;

static _Atomic uint64_t *entry_of(uintptr_t page)
{
    return &pages[(page ^ page >> 7) % PAGES];
}

static uint64_t word_of(uintptr_t page, enum page_kind kind)
{
    const uint64_t turn = (uint64_t)loadmap_generation() << 16 | (loadmap_turn() & 0xffff);
    return (uint64_t)page << (TURN_BITS + KIND_BITS) |
           (turn & ((UINT64_C(1) << TURN_BITS) - 1)) << KIND_BITS | kind;
}

enum page_kind pages_recall(uintptr_t address)
{
    const uintptr_t page = address >> PAGE_SHIFT;
    if (page >> PAGE_BITS)
        return PAGE_UNKNOWN;
    // One lost is no harm, and a locked addition would be one for each word of a stack.
    atomic_store_explicit(&loadmap_questions,
                          atomic_load_explicit(&loadmap_questions, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    const uint64_t found = atomic_load_explicit(entry_of(page), memory_order_relaxed);
    const uint64_t kind = found ^ word_of(page, PAGE_UNKNOWN);
    return kind == PAGE_GENERATED || kind == PAGE_EMPTY ? (enum page_kind)kind : PAGE_UNKNOWN;
}

void pages_remember(uintptr_t address, enum page_kind kind)
{
    const uintptr_t page = address >> PAGE_SHIFT;
    if (!(page >> PAGE_BITS))
        atomic_store_explicit(entry_of(page), word_of(page, kind), memory_order_relaxed);
}
