// SPDX-License-Identifier: MIT
#include "event/blocks.h"
#include "event/birth.h"
#include <sys/single_threaded.h>

enum {
    BUCKET = 4,    // blocks
    HOME_BITS = 7, // of an address, that share a bucket: no allocator has more than four there
                   // but for tiny blocks
    REGION_BITS = 20,
    OVERFLOW = 16,               // buckets
    SIZE_BITS = 16,              // in the key
    REST_BITS = 32 - BIRTH_BITS, // of the size
};

void blocks_open(struct blocks *blocks, void *memory, size_t bytes)
{
    blocks->mask = bytes / (BUCKET * sizeof(struct block)) - 1;
    blocks->table = memory;
}

static uint64_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

static struct block *bucket_at(const struct blocks *blocks, uint64_t number)
{
    return &blocks->table[(number & blocks->mask) * BUCKET];
}

static struct block *home_of(const struct blocks *blocks, uintptr_t address)
{
    return bucket_at(blocks, (address >> HOME_BITS) + mix(address >> REGION_BITS));
}

// The i-th place for a block whose bucket is full. These places lie far apart: neighbours of a full
// bucket are mostly full, too, as they belong to blocks in the same part of the heap.
static struct block *overflow_at(const struct blocks *blocks, uintptr_t address, unsigned i)
{
    return bucket_at(blocks, mix(mix(address >> 3) + i));
}

void blocks_expect(const struct blocks *blocks, uintptr_t address)
{
    __builtin_prefetch(home_of(blocks, address), 1);
}

// Where there is one thread, an instruction is enough against the handlers of its signals.
static bool claim(uint64_t *key, uint64_t value)
{
    uint64_t free_key = 0;
#ifdef __x86_64__
    if (__libc_single_threaded) {
        bool done;
        __asm__ volatile("cmpxchgq %3, %1"
                         : "=@ccz"(done), "+m"(*key), "+a"(free_key)
                         : "r"(value)
                         : "memory");
        return done;
    }
#endif
    // Relaxed: the block's owner alone asks for it, and knows of it by the program's own doing.
    return __atomic_compare_exchange_n(key, &free_key, value, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

static bool put(struct block *bucket, uint64_t key, uint64_t what)
{
    for (unsigned i = 0; i < BUCKET; i++)
        if (__atomic_load_n(&bucket[i].key, __ATOMIC_RELAXED) == 0 && claim(&bucket[i].key, key)) {
            __atomic_store_n(&bucket[i].what, what, __ATOMIC_RELAXED);
            return true;
        }
    return false;
}

static __attribute__((noinline)) bool put_elsewhere(const struct blocks *blocks, uintptr_t address,
                                                    uint64_t key, uint64_t what)
{
    for (unsigned i = 0; i < OVERFLOW; i++)
        if (put(overflow_at(blocks, address, i), key, what))
            return true;
    return false;
}

_Static_assert(BLOCKS_SIZE_MOST >> (SIZE_BITS + REST_BITS) == 0, "sizes have room");

bool blocks_add(const struct blocks *blocks, uintptr_t address, const struct block_facts *facts)
{
    const uint64_t key = (uint64_t)address << SIZE_BITS | (facts->size & 0xffff);
    const uint64_t what = (uint64_t)facts->node << 32 | (uint64_t)facts->birth << REST_BITS |
                          facts->size >> SIZE_BITS;
    return put(home_of(blocks, address), key, what) || put_elsewhere(blocks, address, key, what);
}

static struct block *find(struct block *bucket, uintptr_t address)
{
    for (unsigned i = 0; i < BUCKET; i++)
        if (__atomic_load_n(&bucket[i].key, __ATOMIC_RELAXED) >> SIZE_BITS == address)
            return &bucket[i];
    return NULL;
}

static __attribute__((noinline)) struct block *find_elsewhere(const struct blocks *blocks,
                                                              uintptr_t address)
{
    struct block *found = NULL;
    for (unsigned i = 0; i < OVERFLOW && !found; i++)
        found = find(overflow_at(blocks, address, i), address);
    return found;
}

bool blocks_take(const struct blocks *blocks, uintptr_t address, struct block_facts *facts)
{
    struct block *block = find(home_of(blocks, address), address);
    if (!block)
        block = find_elsewhere(blocks, address);
    if (!block)
        return false;
    const uint64_t what = __atomic_load_n(&block->what, __ATOMIC_RELAXED);
    const uint64_t rest = what & ((UINT64_C(1) << REST_BITS) - 1);
    facts->size = rest << SIZE_BITS | (block->key & 0xffff);
    facts->birth = (uint32_t)what >> REST_BITS;
    facts->node = (ref_t)(what >> 32);
    // Release: the thread that claims the place writes after we have read.
    __atomic_store_n(&block->key, 0, __ATOMIC_RELEASE);
    return true;
}
