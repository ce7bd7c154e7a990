// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_SHORTCUT_H
#define CAIRN_UNWIND_SHORTCUT_H

// Short cuts into the index of a module (.eh_frame_hdr): for each stretch of its code, where
// in the index its functions begin.
//
//   pc ─► first[stretch], first[stretch + 1] ─► a few entries of the index ─► FDE
//
// A search by halves looks at a dozen cache lines, one after the other, none of which is in any
// cache when a sample comes. By a short cut it is two or three, and those of several pcs can be
// fetched at the same time.
//
// Only for modules that are never unloaded. Built by the searches themselves, a piece each; until
// it is whole there is none. All signal-safe.

#include "loadmap/loadmap.h"
#include <stdatomic.h>
#include <string.h>

#define INDEX_ENTRY 8 // bytes: where a function begins, and its FDE, as distances from the index

#define SHORTCUT_CIES 3

struct shortcut {
    _Atomic uint32_t state; // SHORTCUT_*; a reader that sees one sees all that was written before
    _Atomic uint32_t busy;  // a thread is building
    const unsigned char *data, *table;    // .eh_frame_hdr and its entries
    uint32_t count;                       // of them
    uint32_t shift;                       // of a stretch
    uintptr_t start, bytes;               // of code
    uint32_t *first;                      // by stretch: the last entry at or below its start
    uint32_t done, next;                  // how far it is built: entries, stretches
    _Atomic uintptr_t cie[SHORTCUT_CIES]; // those that are as almost all are (common_cfi.h)
    struct module_ref module;             // stays, so it is asked for once
};

enum { SHORTCUT_FREE, SHORTCUT_CLAIMED, SHORTCUT_BUILDING, SHORTCUT_WHOLE };

#define SHORTCUTS 32
extern struct shortcut shortcuts[SHORTCUTS] __attribute__((visibility("hidden")));

// The extent of each module's code: all that a search looks through. Of one that is not whole there
// are no bytes.
struct shortcut_code {
    uintptr_t start;
    _Atomic uintptr_t bytes;
};
extern struct shortcut_code shortcut_codes[SHORTCUTS] __attribute__((visibility("hidden")));
extern _Atomic uint32_t shortcut_count __attribute__((visibility("hidden"))); // that are claimed

static inline int64_t index_key(const unsigned char *table, uint64_t entry)
{
    int32_t key;
    memcpy(&key, table + entry * INDEX_ENTRY, sizeof key);
    return key;
}

// A search takes place in a module whose index has `count` entries at `table`: builds a piece.
void shortcut_build(const struct module_ref *module, const unsigned char *table, uint64_t count);

// That of a pc, if it is whole.
static inline const struct shortcut *shortcut_at(uintptr_t pc)
{
    const uint32_t count = atomic_load_explicit(&shortcut_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        const uintptr_t bytes =
            atomic_load_explicit(&shortcut_codes[i].bytes, memory_order_acquire);
        if (pc - shortcut_codes[i].start < bytes)
            return &shortcuts[i];
    }
    return NULL;
}

static inline const uint32_t *shortcut_first(const struct shortcut *shortcut, uintptr_t pc)
{
    return &shortcut->first[(pc - shortcut->start) >> shortcut->shift];
}

// Bytes of static memory.
uint64_t shortcut_bytes(void);

#endif
