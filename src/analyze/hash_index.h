// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_HASH_INDEX_H
#define CAIRN_ANALYZE_HASH_INDEX_H

// A hash from keys to numbers, where the keys lie elsewhere: in the array that the numbers index.
// The caller walks over the candidates of a hash and compares the keys itself.
//
//   struct numbering_cursor cursor = numbering_find(&numbering, hash);
//   for (uint32_t found; numbering_next(&numbering, &cursor, &found);)
//       if (array[found] is the one) return found;
//   numbering_add(&numbering, hash, number of the new one);

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct numbering_slot {
    uint32_t hash;   // its upper half
    uint32_t number; // + 1; 0: free
};

struct numbering {
    struct numbering_slot *slots;
    size_t count, capacity; // capacity: a power of two, or 0
};

struct numbering_cursor {
    uint32_t hash;
    size_t at;
};

// Spreads the bits of a key.
static inline uint64_t numbering_mix(uint64_t key)
{
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93;
    return key ^ key >> 32;
}

struct numbering_cursor numbering_find(const struct numbering *numbering, uint64_t hash);
bool numbering_next(const struct numbering *numbering, struct numbering_cursor *cursor,
                    uint32_t *number);
void numbering_add(struct numbering *numbering, uint64_t hash, uint32_t number);
void numbering_free(struct numbering *numbering);

#endif
