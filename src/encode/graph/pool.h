// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_POOL_H
#define CAIRN_ENCODE_GRAPH_POOL_H

// Memory for the call graph and its encodings, where there is no malloc: pages come from the
// owner of the pool. Two ways to use it:
//
//   pool_alloc()      small things that stay for ever, cut from larger pieces
//   pool_map()        large things that are given back (dictionaries, scratch memory)
//
// A series is an array that grows without moving: piece k holds FIRST << k members, so that a
// reader in another thread, or in a signal handler, may hold pointers while a writer adds.
//
//   piece[0] ─► [ 256 members ]   piece[1] ─► [ 512 ]   piece[2] ─► [ 1024 ] ...
//
// Not thread-safe: the writer's lock is the caller's. Readers need none.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
    void *(*map)(size_t bytes); // zeroed, aligned to 16; NULL when there is none
    void (*unmap)(void *memory, size_t bytes);
    size_t piece; // how much pool_alloc() takes at a time; 0: each by itself (for checkers)
    unsigned char *at;
    size_t left;
    struct pool_piece *pieces; // all that pool_alloc() took
    uint64_t mapped;           // bytes held now
};

void *pool_alloc(struct pool *pool, size_t bytes); // zeroed; NULL: out of memory
void pool_close(struct pool *pool);                // gives back all that pool_alloc() took
void *pool_map(struct pool *pool, size_t bytes);   // zeroed; NULL: out of memory
void pool_unmap(struct pool *pool, void *memory, size_t bytes);

enum {
    SERIES_FIRST_BITS = 8,
    SERIES_PIECES = 32 - SERIES_FIRST_BITS,
};

struct series {
    unsigned char *piece[SERIES_PIECES];
    uint32_t size; // bytes of a member
};

// Makes sure that a member exists; it is zeroed. False: out of memory.
bool series_reach(struct series *series, struct pool *pool, uint32_t index);
void series_free(struct series *series, struct pool *pool);

// A member that exists. Signal-safe.
static inline void *series_at(const struct series *series, uint32_t index)
{
    uint64_t shifted = (uint64_t)index + (1u << SERIES_FIRST_BITS);
    unsigned top = 63 - (unsigned)__builtin_clzll(shifted);
    // The writer publishes a piece before any index into it: the acquire pairs with its release.
    unsigned char *piece =
        __atomic_load_n(&series->piece[top - SERIES_FIRST_BITS], __ATOMIC_ACQUIRE);
    return piece + (shifted - ((uint64_t)1 << top)) * series->size;
}

#endif
