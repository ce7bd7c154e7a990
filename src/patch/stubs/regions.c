// SPDX-License-Identifier: MIT
#include "patch/stubs/bump_allocator.h"
#include "patch/stubs/stub.h"
#include "patch/stubs/stub_cfi.h"
#include "patch/write/code_write.h"
#include "patch/write/edits.h"
#include <errno.h>
#include <string.h>

#define REGIONS 4096
#define SHIFT_LEAST 4
#define SHIFT_MOST 14
#define BYTES_LEAST (UINT64_C(1) << 16)
#define BYTES_MOST (UINT64_C(1) << 20)
#define REACH ((UINT64_C(1) << 31) - (UINT64_C(1) << 21))

// In order of address. A new list is published whole; old ones stay, for their readers.
struct region_list {
    size_t count;
    struct region *region[];
};
static struct region_list *_Atomic regions;
static uint64_t region_sum; // bytes, of all

const struct region *region_number(size_t number)
{
    struct region_list *list = atomic_load_explicit(&regions, memory_order_acquire);
    return list && number < list->count ? list->region[number] : NULL;
}

const struct region *region_at(uintptr_t address)
{
    struct region_list *list = atomic_load_explicit(&regions, memory_order_acquire);
    size_t low = 0, high = list ? list->count : 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct region *region = list->region[middle];
        if (address < region->start)
            high = middle;
        else if (address >= region->end)
            low = middle + 1;
        else
            return region;
    }
    return NULL;
}

static uint32_t slot_of(const struct region *region, uintptr_t address)
{
    return (uint32_t)((address - region->start - REGION_HEAD) >> region->shift);
}

struct stub *region_stub_at(uintptr_t address)
{
    const struct region *region = region_at(address);
    if (!region || address < region->start + REGION_HEAD)
        return NULL;
    return atomic_load_explicit(&region->stub[slot_of(region, address)], memory_order_acquire);
}

static int publish(struct region *region)
{
    struct region_list *old = atomic_load_explicit(&regions, memory_order_relaxed);
    const size_t count = old ? old->count : 0;
    struct region_list *list = bump_take(sizeof *list + (count + 1) * sizeof *list->region);
    if (!list || count == REGIONS)
        return -ENOMEM;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == at && old->region[i]->start < region->start)
            at++;
        list->region[i < at ? i : i + 1] = old->region[i];
    }
    list->region[at] = region;
    list->count = count + 1;
    atomic_store_explicit(&regions, list, memory_order_release);
    return 0;
}

static size_t bytes_for(unsigned shift)
{
    // As many as there are of that size already, so that large programs have few of them.
    size_t bytes = 0;
    for (size_t i = 0; region_number(i); i++)
        if (region_number(i)->shift == shift)
            bytes += region_number(i)->end - region_number(i)->start;
    return bytes < BYTES_LEAST ? BYTES_LEAST : bytes > BYTES_MOST ? BYTES_MOST : bytes;
}

static struct region *make_region(uintptr_t low, uintptr_t high, unsigned shift)
{
    const size_t bytes = bytes_for(shift) & ~(size_t)4095;
    struct region *region = bump_take(sizeof *region);
    if (!region)
        return NULL;
    region->slots = (uint32_t)((bytes - REGION_HEAD) >> shift);
    region->stub = bump_take(region->slots * sizeof *region->stub);
    region->start = (uintptr_t)code_map_near(low, high, bytes);
    if (!region->stub || !region->start)
        return NULL;
    region->end = region->start + REGION_HEAD + ((uintptr_t)region->slots << shift);
    region->shift = shift;
    unsigned char head[REGION_HEAD];
    stub_cfi_make_table(region, head);
    if (edits_write_now(region->start, head, sizeof head) || publish(region))
        return NULL;
    region_sum += bytes;
    stub_cfi_show_debugger(region);
    return region;
}

static bool reaches(const struct region *region, uintptr_t low, uintptr_t high)
{
    const uintptr_t least = region->start < low ? region->start : low;
    const uintptr_t most = region->end > high ? region->end : high;
    return most - least < REACH;
}

static struct region *find_region(uintptr_t low, uintptr_t high, unsigned shift)
{
    struct region_list *list = atomic_load_explicit(&regions, memory_order_relaxed);
    for (size_t i = 0; list && i < list->count; i++) {
        struct region *region = list->region[i];
        if (region->shift == shift && (region->free_stubs || region->used < region->slots) &&
            reaches(region, low, high))
            return region;
    }
    return make_region(low, high, shift);
}

struct stub *region_take(uintptr_t low, uintptr_t high, size_t bytes)
{
    unsigned shift = SHIFT_LEAST;
    while ((UINT64_C(1) << shift) < bytes)
        shift++;
    struct region *region = shift > SHIFT_MOST ? NULL : find_region(low, high, shift);
    if (!region)
        return NULL;
    struct stub *stub = region->free_stubs;
    if (stub) {
        region->free_stubs = stub->next_free;
        const struct stub old = *stub;
        memset(stub, 0, sizeof *stub);
        stub->code = old.code;
    } else if ((stub = bump_take(sizeof *stub))) {
        stub->code = region->start + REGION_HEAD + ((uintptr_t)region->used << shift);
        atomic_store_explicit(&region->stub[region->used], stub, memory_order_release);
        region->used++;
    }
    if (stub)
        stub->shift = (uint8_t)shift;
    return stub;
}

void region_give_back(struct stub *stub)
{
    struct region *region = (struct region *)region_at(stub->code);
    stub->is_free = true;
    stub->next_free = region->free_stubs;
    region->free_stubs = stub;
}

uint64_t region_bytes(void)
{
    return region_sum;
}
