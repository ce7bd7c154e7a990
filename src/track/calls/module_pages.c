// SPDX-License-Identifier: MIT
#include "track/calls/module_pages.h"
#include "base/gc_hidden.h"

#define PAGE 4096

_Static_assert(CALLS_CHUNKS == 8192 && CALLS_CHUNK_SHIFT == 21 && CALLS_CHUNK_PAGES == 512 &&
                   CALLS_PAGE_FOLLOWED == 0x8000,
               "as in calls_x86_64.S");

// A chunk keeps its place for good. Its tag is written last, with release; a hook that sees it
// reads pages that say nothing yet, or what they say. In calls_x86_64.S, too.
__attribute__((visibility("hidden"))) uint32_t calls_chunk_tags[CALLS_CHUNKS] GC_HIDDEN;
__attribute__((visibility("hidden")))
calls_page_t calls_chunk_pages[CALLS_CHUNKS][CALLS_CHUNK_PAGES] GC_HIDDEN;
static unsigned chunk_count;

// The place of a chunk, or the free one where it would be.
static size_t place_of(uint32_t chunk)
{
    size_t place = chunk % CALLS_CHUNKS;
    for (;; place = (place + 1) % CALLS_CHUNKS) {
        const uint32_t tag = __atomic_load_n(&calls_chunk_tags[place], __ATOMIC_ACQUIRE);
        if (tag == chunk || tag == 0)
            return place;
    }
}

static calls_page_t *page_at(uintptr_t address)
{
    const uint32_t chunk = (uint32_t)(address >> CALLS_CHUNK_SHIFT);
    const size_t place = place_of(chunk);
    if (calls_chunk_tags[place] == 0) {
        if (chunk_count == CALLS_CHUNKS / 2) // so that every search ends, and soon
            return NULL;
        chunk_count++;
        __atomic_store_n(&calls_chunk_tags[place], chunk, __ATOMIC_RELEASE);
    }
    return &calls_chunk_pages[place][address / PAGE % CALLS_CHUNK_PAGES];
}

void calls_pages_put(uintptr_t start, uintptr_t end, calls_page_t page)
{
    for (uintptr_t address = start & ~(uintptr_t)(PAGE - 1); address < end; address += PAGE) {
        calls_page_t *at = page_at(address);
        if (at)
            __atomic_store_n(at, page, __ATOMIC_RELEASE);
    }
}

calls_page_t calls_pages_at(uintptr_t address)
{
    const uint32_t chunk = (uint32_t)(address >> CALLS_CHUNK_SHIFT);
    const size_t place = chunk && address >> 47 == 0 ? place_of(chunk) : CALLS_CHUNKS;
    if (place == CALLS_CHUNKS || calls_chunk_tags[place] == 0)
        return 0;
    return __atomic_load_n(&calls_chunk_pages[place][address / PAGE % CALLS_CHUNK_PAGES],
                           __ATOMIC_ACQUIRE);
}
