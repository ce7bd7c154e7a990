// SPDX-License-Identifier: MIT
#include "base/gc_hidden.h"
#include "patch/stubs/bump_allocator.h"
#include "patch/stubs/stub.h"
#include "patch/write/code_write.h"
#include <string.h>

// A jump over a site of two to four bytes covers instructions that follow it. Threads may be at
// them, or return to them from calls made before, at any time. So each byte of the jump at which an
// instruction began must be a trap (sites_trapped() sends them on): bytes of the distance. That
// leaves few places for the jump's target, too few for stubs; there is a mere jump to the stub.
// Jumps that overlap each other (displace.c) have such bytes, too.

#define PAGE 4096
#define UNIT 8 // of a page: a jump that lies within eight bytes
#define PAGES 4096
#define TRIES 512
#define REACH ((UINT64_C(1) << 31) - (UINT64_C(1) << 21))

struct island_page {
    uintptr_t address;
    uint64_t used[PAGE / UNIT / 64];
};

// Under the lock.
static struct island_page *pages[PAGES] GC_HIDDEN;
static unsigned page_count;

// The least fit distance that is not less; may wrap around, which the caller finds out of reach.
static uint32_t next_fit(uint32_t distance, const struct island_shape *shape)
{
    for (int i = 3; i >= 0; i--) {
        const uint32_t byte = distance >> 8 * i & 0xff, below = (UINT32_C(1) << 8 * i) - 1;
        const uint32_t wanted = shape->distance >> 8 * i & 0xff;
        if (!(shape->fixed >> i & 1) || byte == wanted)
            continue;
        if (byte > wanted) {
            // The bytes above it must grow, and are looked at again.
            distance = (distance | below | UINT32_C(0xff) << 8 * i) + 1;
            i = 4;
            continue;
        }
        distance = (distance & ~(below | UINT32_C(0xff) << 8 * i)) | wanted << 8 * i;
    }
    return distance;
}

static bool is_used(const struct island_page *page, unsigned unit)
{
    return page->used[unit / 64] >> unit % 64 & 1;
}

static void use(struct island_page *page, unsigned unit)
{
    page->used[unit / 64] |= UINT64_C(1) << unit % 64;
}

static void unuse(struct island_page *page, unsigned unit)
{
    page->used[unit / 64] &= ~(UINT64_C(1) << unit % 64);
}

// Jumps begin with a unit, unless the shape says where.
static unsigned step_of(const struct island_shape *shape)
{
    return shape->fixed & 1 ? 1 : UNIT;
}

static unsigned char *take_unit(struct island_page *page, uintptr_t end,
                                const struct island_shape *shape)
{
    const unsigned step = step_of(shape);
    for (unsigned at = 0; at + JUMP_BYTES <= PAGE;) {
        const uint32_t distance = (uint32_t)(page->address + at - end);
        const uint32_t further = next_fit(distance, shape) - distance;
        const unsigned first = at / UNIT, last = (at + JUMP_BYTES - 1) / UNIT;
        if (further >= PAGE)
            return NULL;
        if (further == 0 && !is_used(page, first) && !is_used(page, last)) {
            use(page, first);
            use(page, last);
            return (unsigned char *)page->address + at;
        }
        at += further ? (further + step - 1) / step * step : step;
    }
    return NULL;
}

// The code that is to reach an island.
struct island_users {
    uintptr_t low, high;
};

static bool is_near(uintptr_t address, struct island_users users)
{
    const uintptr_t least = address < users.low ? address : users.low;
    const uintptr_t most = address > users.high ? address : users.high;
    return most - least < REACH;
}

static unsigned char *try_page(uintptr_t address, uintptr_t end, const struct island_shape *shape)
{
    if (page_count == PAGES)
        return NULL;
    struct island_page *page = bump_take(sizeof *page);
    if (!page || !code_map_at(address, PAGE))
        return NULL;
    page->address = address;
    pages[page_count++] = page;
    return take_unit(page, end, shape);
}

// Looks from `from` in steps for a page that could be mapped.
static unsigned char *search(uintptr_t from, int64_t step, uintptr_t end,
                             const struct island_shape *shape, struct island_users users)
{
    for (unsigned i = 0; i < TRIES; i++, from += (uintptr_t)step) {
        const uint32_t distance = next_fit((uint32_t)(from - end), shape);
        const uintptr_t fit = end + (uintptr_t)(int64_t)(int32_t)distance;
        const uintptr_t address = (fit + step_of(shape) - 1) & ~(uintptr_t)(PAGE - 1);
        const bool crosses = step_of(shape) == 1 && fit - address > PAGE - JUMP_BYTES;
        if (address < 16 * PAGE || !is_near(address, users) || crosses)
            continue;
        unsigned char *island = try_page(address, end, shape);
        if (island)
            return island;
    }
    return NULL;
}

unsigned char *island_take(uintptr_t end, const struct island_shape *shape, uintptr_t low,
                           uintptr_t high)
{
    const unsigned fixed = shape->fixed;
    const struct island_users users = {low, high};
    for (unsigned i = page_count; i-- > 0;) {
        unsigned char *island =
            is_near(pages[i]->address, users) ? take_unit(pages[i], end, shape) : NULL;
        if (island)
            return island;
    }
    if (fixed & 8) { // only one stretch of 16 megabytes will do
        const uintptr_t window = end + (uintptr_t)(int64_t)(int32_t)(shape->distance & 0xff000000);
        return search(window, fixed & 4 ? PAGE : 1 << 16, end, shape, users);
    }
    const int64_t step = fixed & 4 ? 1 << 24 : 1 << 16;
    unsigned char *island =
        low > (uintptr_t)step ? search(low - (uintptr_t)step, -step, end, shape, users) : NULL;
    // Above, but not where the heap would grow at once.
    return island ? island : search(high + (UINT64_C(1) << 28), step, end, shape, users);
}

void island_give_back(uintptr_t island)
{
    for (unsigned i = 0; i < page_count; i++)
        if (island - pages[i]->address < PAGE) {
            unuse(pages[i], (unsigned)(island - pages[i]->address) / UNIT);
            unuse(pages[i], (unsigned)(island + JUMP_BYTES - 1 - pages[i]->address) / UNIT);
        }
}

uint64_t island_bytes(void)
{
    return (uint64_t)page_count * PAGE;
}
