// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_BLOCKS_H
#define CAIRN_EVENT_BLOCKS_H

// The blocks that a program has allocated and not freed: address -> (size, birth, node of
// the context).
//
//   address ─┬─ its 128 bytes of the heap ─► home bucket   [ block | block | block | block ]
//            └─ hash ─► run of overflow buckets, where the home is full
//
// A bucket is a cache line of four blocks. The buckets of neighbouring addresses are neighbours. So
// a program that goes through its heap goes through the table, and a small heap touches little of
// it. The table has its full size from the start, but pages that were never written cost nothing.
// Each megabyte of addresses begins at a bucket of its own choice, so that heaps, mappings and
// arenas fill each other's gaps.
//
// No thread waits for another. Several threads change a bucket, but only the owner of the block
// changes its address: it is entered after the allocator has given the block away, and taken out
// before the allocator gets it back. Nothing is ever moved, and a search looks at all places where
// a block may be; so there are no tombstones. All of it may run in signal handlers, also in one
// that interrupts the same thread here.

#include "base/arena.h"
#include <stdbool.h>

struct block {
    uint64_t key;  // address << 16 | low bits of the size; 0: free
    uint64_t what; // node << 32 | birth << 22 | the rest of the size
};

#define BLOCKS_SIZE_MOST ((UINT64_C(1) << 38) - 1)

// A block, by its address.
struct block_facts {
    uint64_t size;  // up to BLOCKS_SIZE_MOST
    uint32_t birth; // event/birth.h
    ref_t node;
};

struct blocks {
    struct block *table; // NULL: none
    uint64_t mask;       // of buckets
};

// In zeroed memory, whose size is a power of two of at least 4096 bytes.
void blocks_open(struct blocks *blocks, void *memory, size_t bytes);

// One at this address will be added soon: asks the processor to have its place at hand.
void blocks_expect(const struct blocks *blocks, uintptr_t address);

// False: there is no room for it.
bool blocks_add(const struct blocks *blocks, uintptr_t address, const struct block_facts *facts);

// Takes it out. False: it is not there.
bool blocks_take(const struct blocks *blocks, uintptr_t address, struct block_facts *facts);

#endif
