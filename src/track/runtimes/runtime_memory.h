// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_RUNTIME_MEMORY_H
#define CAIRN_TRACK_RUNTIMES_RUNTIME_MEMORY_H

// Loads from the memory of a runtime, which may be gone: the kernel is asked about each page first.
// Signal-safe.

#include "loadmap/loadmap.h"

#define RUNTIME_PAGE ((uintptr_t)4096)

// An aligned word. *page: found to be readable by the last load; 0: none was.
static inline bool runtime_load(uintptr_t *page, uintptr_t address, uintptr_t *value)
{
    if (address % 8 || address < RUNTIME_PAGE)
        return false;
    if ((address & ~(RUNTIME_PAGE - 1)) != *page) {
        if (!loadmap_readable(address))
            return false;
        *page = address & ~(RUNTIME_PAGE - 1);
    }
    *value = *(const uintptr_t *)address;
    return true;
}

// A part of a word: 1, 2 or 4 bytes, aligned to their size.
static inline bool runtime_load_part(uintptr_t *page, uintptr_t address, unsigned bytes,
                                     uintptr_t *value)
{
    if (!runtime_load(page, address & ~(uintptr_t)7, value))
        return false;
    *value = *value >> address % 8 * 8 & ((UINT64_C(1) << bytes * 8) - 1);
    return true;
}

static inline bool runtime_is_readable(uintptr_t address, size_t bytes)
{
    if (address < RUNTIME_PAGE || address + bytes < address)
        return false;
    for (uintptr_t page = address & ~(RUNTIME_PAGE - 1); page < address + bytes;
         page += RUNTIME_PAGE)
        if (!loadmap_readable(page))
            return false;
    return true;
}

#endif
