// SPDX-License-Identifier: MIT
#include "encode/graph/pool.h"

void *pool_map(struct pool *pool, size_t bytes)
{
    void *memory = pool->map(bytes ? bytes : 1);
    if (memory)
        pool->mapped += bytes;
    return memory;
}

void pool_unmap(struct pool *pool, void *memory, size_t bytes)
{
    if (!memory)
        return;
    pool->mapped -= bytes;
    pool->unmap(memory, bytes ? bytes : 1);
}

struct pool_piece {
    struct pool_piece *next;
    size_t bytes;
};

static unsigned char *new_piece(struct pool *pool, size_t bytes)
{
    bytes += sizeof(struct pool_piece);
    struct pool_piece *piece = pool_map(pool, bytes);
    if (!piece)
        return NULL;
    *piece = (struct pool_piece){pool->pieces, bytes};
    pool->pieces = piece;
    return (unsigned char *)(piece + 1);
}

void *pool_alloc(struct pool *pool, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    // A large request does not waste what is left of the current piece.
    if (bytes > pool->piece / 4)
        return new_piece(pool, bytes);
    if (bytes > pool->left) {
        unsigned char *piece = new_piece(pool, pool->piece);
        if (!piece)
            return NULL;
        pool->at = piece;
        pool->left = pool->piece;
    }
    void *memory = pool->at;
    pool->at += bytes;
    pool->left -= bytes;
    return memory;
}

void pool_close(struct pool *pool)
{
    while (pool->pieces) {
        struct pool_piece *piece = pool->pieces;
        pool->pieces = piece->next;
        pool_unmap(pool, piece, piece->bytes);
    }
    pool->at = NULL;
    pool->left = 0;
}

bool series_reach(struct series *series, struct pool *pool, uint32_t index)
{
    uint64_t shifted = (uint64_t)index + (1u << SERIES_FIRST_BITS);
    unsigned number = 63 - (unsigned)__builtin_clzll(shifted) - SERIES_FIRST_BITS;
    if (number >= SERIES_PIECES)
        return false;
    for (unsigned i = 0; i <= number; i++) {
        if (series->piece[i])
            continue;
        unsigned char *piece = pool_map(pool, ((size_t)series->size << SERIES_FIRST_BITS) << i);
        if (!piece)
            return false;
        // Written under the writer's lock; readers see zeroed members once they see the piece.
        __atomic_store_n(&series->piece[i], piece, __ATOMIC_RELEASE);
    }
    return true;
}

void series_free(struct series *series, struct pool *pool)
{
    for (unsigned i = 0; i < SERIES_PIECES; i++) {
        pool_unmap(pool, series->piece[i], ((size_t)series->size << SERIES_FIRST_BITS) << i);
        series->piece[i] = NULL;
    }
}
