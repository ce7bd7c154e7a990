// SPDX-License-Identifier: MIT
#include "unwind/shortcut.h"
#include "base/gc_hidden.h"

#define PIECE 256            // entries that a search takes in
#define STRETCH_SHIFT 12     // a page has some ten functions: one or two cache lines of the index
#define STRETCHES_MOST 16384 // of one module

struct shortcut shortcuts[SHORTCUTS] GC_HIDDEN;
struct shortcut_code shortcut_codes[SHORTCUTS];
_Atomic uint32_t shortcut_count;

static uint32_t pool[2 * STRETCHES_MOST] GC_HIDDEN;
static _Atomic uint32_t pool_used; // taken for good; relaxed, nothing hangs on it

// The thread that changed the state from free is alone here.
static void describe(struct shortcut *shortcut, const struct module_ref *module,
                     const unsigned char *table, uint64_t count)
{
    shortcut->module = *module;
    shortcut->data = module->eh_frame_hdr;
    shortcut->table = table;
    shortcut->count = (uint32_t)count;
    shortcut->start = module->code_start;
    shortcut->bytes = module->code_end - module->code_start;
    shortcut->shift = STRETCH_SHIFT;
    while (shortcut->bytes >> shortcut->shift >= STRETCHES_MOST)
        shortcut->shift++;
    uint32_t need = (uint32_t)(shortcut->bytes >> shortcut->shift) + 2;
    uint32_t at = atomic_fetch_add_explicit(&pool_used, need, memory_order_relaxed);
    if (at + need > sizeof pool / sizeof *pool)
        return; // stays claimed: no room
    shortcut->first = &pool[at];
    atomic_store_explicit(&shortcut->state, SHORTCUT_BUILDING, memory_order_release);
}

static uintptr_t stretch_start(const struct shortcut *shortcut)
{
    return shortcut->start + ((uintptr_t)shortcut->next << shortcut->shift);
}

static void build(struct shortcut *shortcut)
{
    const uint32_t stretches = (uint32_t)(shortcut->bytes >> shortcut->shift) + 2;
    uint32_t end = shortcut->done + PIECE;
    if (end > shortcut->count)
        end = shortcut->count;
    for (uint32_t i = shortcut->done; i < end; i++) {
        uintptr_t function = (uintptr_t)shortcut->data + (uintptr_t)index_key(shortcut->table, i);
        while (shortcut->next < stretches && stretch_start(shortcut) < function)
            shortcut->first[shortcut->next++] = i ? i - 1 : 0;
    }
    shortcut->done = end;
    if (end < shortcut->count)
        return;
    while (shortcut->next < stretches)
        shortcut->first[shortcut->next++] = shortcut->count - 1;
    struct shortcut_code *code = &shortcut_codes[shortcut - shortcuts];
    code->start = shortcut->start;
    // A reader that sees the bytes also sees the start.
    atomic_store_explicit(&code->bytes, shortcut->bytes, memory_order_release);
    atomic_store_explicit(&shortcut->state, SHORTCUT_WHOLE, memory_order_release);
}

static void build_alone(struct shortcut *shortcut)
{
    // One builder at a time: acquire and release hand its progress on.
    if (atomic_exchange_explicit(&shortcut->busy, 1, memory_order_acquire))
        return;
    if (atomic_load_explicit(&shortcut->state, memory_order_relaxed) == SHORTCUT_BUILDING)
        build(shortcut);
    atomic_store_explicit(&shortcut->busy, 0, memory_order_release);
}

void shortcut_build(const struct module_ref *module, const unsigned char *table, uint64_t count)
{
    if (!module->permanent || count == 0 || count > UINT32_MAX)
        return;
    for (unsigned i = 0; i < SHORTCUTS; i++) {
        struct shortcut *shortcut = &shortcuts[i];
        uint32_t state = atomic_load_explicit(&shortcut->state, memory_order_acquire);
        if (state >= SHORTCUT_BUILDING && shortcut->table == table && shortcut->count == count) {
            build_alone(shortcut);
            return;
        }
        if (state != SHORTCUT_FREE)
            continue;
        if (atomic_compare_exchange_strong_explicit(&shortcut->state, &state, SHORTCUT_CLAIMED,
                                                    memory_order_acquire, memory_order_relaxed)) {
            atomic_fetch_add_explicit(&shortcut_count, 1, memory_order_relaxed);
            describe(shortcut, module, table, count);
        }
        return;
    }
}

uint64_t shortcut_bytes(void)
{
    return sizeof shortcuts + sizeof shortcut_codes + sizeof pool;
}
