// SPDX-License-Identifier: MIT
#include "loadmap/table.h"
#include "base/gc_hidden.h"
#include <stdatomic.h>
#include <string.h>

// Read while they are written: every field is a whole number of 8-byte words and is moved by words
// with relaxed atomics. A read counts only if the sequence number stood still.
//
// A module stays in its slot. When a module comes or goes, only two-byte numbers move, in the order
// of addresses: libraries come by the thousand, mostly below the others.
//
//     order   [ in use, by address | free, used before ]      slots from `fresh` on were never used
//             0                    modules             fresh
struct copy {
    uint64_t modules, ranges, fresh;
    uint16_t order[TABLE_MODULES];
    struct table_module module[TABLE_MODULES];
    struct maps_range range[MAPS_RANGES];
};

_Static_assert(sizeof(struct table_module) % 8 == 0, "moved by words");

static struct copy copies[2] GC_HIDDEN;

// Written by the holder of the lock, twice per change; release after each copy is whole, acquire
// before it is read.
static _Atomic uint32_t sequence;

#define MOST_TRIES 64

static uint64_t load(const void *word)
{
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
}

static void move_words(void *to, const void *from, size_t bytes)
{
    uint64_t *target = to;
    const uint64_t *source = from;
    for (size_t i = 0; i < bytes / 8; i++)
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
}

static struct table_module *nth(const struct copy *copy, uint64_t index)
{
    const unsigned slot = __atomic_load_n(&copy->order[index], __ATOMIC_RELAXED);
    return (struct table_module *)&copy->module[slot % TABLE_MODULES];
}

// The last module that starts at or below pc, as far as this copy can be trusted.
static bool search(const struct copy *copy, uintptr_t pc, struct table_module *module)
{
    uint64_t low = 0, high = load(&copy->modules);
    if (high > TABLE_MODULES)
        return false;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (load(&nth(copy, middle)->ref.start) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || pc >= load(&nth(copy, low - 1)->ref.end))
        return false;
    move_words(module, nth(copy, low - 1), sizeof *module);
    return true;
}

static bool search_ranges(const struct copy *copy, uintptr_t pc)
{
    uint64_t low = 0, high = load(&copy->ranges);
    if (high > MAPS_RANGES)
        return false;
    while (low < high) { // they are in order, as in /proc/PID/maps
        uint64_t middle = low + (high - low) / 2;
        if (load(&copy->range[middle].end) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < load(&copy->ranges) && low < MAPS_RANGES && pc >= load(&copy->range[low].start);
}

static const struct copy *begin_read(uint32_t *number)
{
    *number = atomic_load_explicit(&sequence, memory_order_acquire);
    return &copies[*number & 1];
}

static bool read_was_whole(uint32_t number)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&sequence, memory_order_relaxed) == number;
}

bool table_find(uintptr_t pc, struct table_module *module)
{
    for (unsigned tries = 0; tries < MOST_TRIES; tries++) {
        uint32_t number;
        const struct copy *copy = begin_read(&number);
        bool found = search(copy, pc, module);
        if (read_was_whole(number))
            return found;
    }
    return false;
}

bool table_is_anonymous_code(uintptr_t pc)
{
    for (unsigned tries = 0; tries < MOST_TRIES; tries++) {
        uint32_t number;
        const struct copy *copy = begin_read(&number);
        bool found = search_ranges(copy, pc);
        if (read_was_whole(number))
            return found;
    }
    return false;
}

unsigned table_count(void)
{
    return (unsigned)copies[0].modules;
}

const struct table_module *table_at(unsigned index)
{
    return nth(&copies[0], index);
}

static void set_modules(struct copy *copy, uint64_t count)
{
    __atomic_store_n(&copy->modules, count, __ATOMIC_RELAXED);
}

static void set_order(struct copy *copy, uint64_t index, uint16_t slot)
{
    __atomic_store_n(&copy->order[index], slot, __ATOMIC_RELAXED);
}

static void remove_from(struct copy *copy, uint64_t index)
{
    const uint16_t slot = copy->order[index];
    const uint64_t last = copy->modules - 1;
    for (uint64_t i = index; i < last; i++)
        set_order(copy, i, copy->order[i + 1]);
    set_order(copy, last, slot);
    set_modules(copy, last);
}

// How many of them end at or below an address.
static uint64_t count_below(const struct copy *copy, uintptr_t address)
{
    uint64_t low = 0, high = copy->modules;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (nth(copy, middle)->ref.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

unsigned table_index(uintptr_t address)
{
    const uint64_t index = count_below(&copies[0], address);
    return index < copies[0].modules && nth(&copies[0], index)->ref.start <= address
               ? (unsigned)index
               : table_count();
}

static void replace_in(struct copy *copy, const struct table_module *module)
{
    const uint64_t at = count_below(copy, module->ref.start);
    while (at < copy->modules && nth(copy, at)->ref.start < module->ref.end)
        remove_from(copy, at);
    const uint64_t count = copy->modules;
    const uint16_t slot = count < copy->fresh ? copy->order[count] : (uint16_t)copy->fresh++;
    for (uint64_t i = count; i > at; i--)
        set_order(copy, i, copy->order[i - 1]);
    move_words(&copy->module[slot], module, sizeof *module);
    set_order(copy, at, slot);
    set_modules(copy, count + 1);
}

// A change is a function applied to both copies, each while readers are on the other one.
static struct copy *begin_change(unsigned which)
{
    // Even to odd opens copy 0 to the writer, odd to even opens copy 1. The fence keeps the writes
    // from being seen before the number.
    atomic_fetch_add_explicit(&sequence, 1, memory_order_acq_rel);
    atomic_thread_fence(memory_order_release);
    return &copies[which];
}

struct loadmap_hull loadmap_hulls[2];

#define HULL_GAP (UINT64_C(1) << 30)

static void widen_hulls(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < 2; i++) {
        struct loadmap_hull *hull = &loadmap_hulls[i];
        uintptr_t low = atomic_load_explicit(&hull->start, memory_order_relaxed);
        uintptr_t high = low + atomic_load_explicit(&hull->bytes, memory_order_relaxed);
        if (low == high) {
            low = start;
            high = end;
        } else if (end + HULL_GAP < low || start > high + HULL_GAP) {
            continue;
        }
        low = start < low ? start : low;
        high = end > high ? end : high;
        atomic_store_explicit(&hull->start, low, memory_order_relaxed);
        atomic_store_explicit(&hull->bytes, high - low, memory_order_relaxed);
        return;
    }
}

bool table_insert(const struct table_module *module)
{
    const struct module_ref *ref = &module->ref;
    if (copies[0].modules == TABLE_MODULES)
        return false;
    if (ref->id != MODULE_VDSO && ref->code_end > ref->code_start)
        widen_hulls(ref->code_start, ref->code_end);
    for (unsigned which = 0; which < 2; which++)
        replace_in(begin_change(which), module);
    return true;
}

void table_mark_seen(unsigned index, uint32_t seen)
{
    for (unsigned which = 0; which < 2; which++)
        __atomic_store_n(&nth(begin_change(which), index)->seen, seen, __ATOMIC_RELAXED);
}

void table_remove(unsigned index)
{
    for (unsigned which = 0; which < 2; which++)
        remove_from(begin_change(which), index);
}

void table_set_ranges(const struct maps_range *range, unsigned count)
{
    for (unsigned which = 0; which < 2; which++) {
        struct copy *copy = begin_change(which);
        __atomic_store_n(&copy->ranges, count, __ATOMIC_RELAXED);
        move_words(copy->range, range, count * sizeof *range);
    }
}

void table_repair(void)
{
    uint32_t number = atomic_load(&sequence);
    copies[~number & 1] = copies[number & 1];
    if (number & 1)
        atomic_store(&sequence, number + 1);
}
