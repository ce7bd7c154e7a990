// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_INDEX_HASH_INDEX_H
#define CAIRN_ANALYZE_INDEX_HASH_INDEX_H

// A hash from keys to numbers, where the keys lie elsewhere: in the array that the numbers index.
// The caller walks over the candidates of a hash and compares the keys itself.
//
//   struct hash_index_cursor cursor = hash_index_find(&numbering, hash);
//   for (uint32_t found; hash_index_next(&numbering, &cursor, &found);)
//       if (array[found] is the one) return found;
//   hash_index_add(&numbering, hash, number of the new one);

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_index_slot {
    uint32_t hash;   // its upper half
    uint32_t number; // + 1; 0: free
};

struct hash_index {
    struct hash_index_slot *slots;
    size_t count, capacity; // capacity: a power of two, or 0
};

struct hash_index_cursor {
    uint32_t hash;
    size_t at;
};

// Spreads the bits of a key.
static inline uint64_t hash_index_mix(uint64_t key)
{
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93;
    return key ^ key >> 32;
}

struct hash_index_cursor hash_index_find(const struct hash_index *numbering, uint64_t hash);
bool hash_index_next(const struct hash_index *numbering, struct hash_index_cursor *cursor,
                     uint32_t *number);
void hash_index_add(struct hash_index *numbering, uint64_t hash, uint32_t number);
void hash_index_free(struct hash_index *numbering);

#endif
