// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_GRAPH_LOOKUP_H
#define CAIRN_ENCODE_GRAPH_LOOKUP_H

// From a hash to the indices that were put under it. The keys stay with their owner, who compares.
// One writer; readers without a lock, in signal handlers too: a table that has become too small is
// replaced by a larger one and stays where it is for those who still look into it.
//
//   for (struct lookup_cursor at = lookup_start(&lookup, hash); lookup_next(&at, &index);)
//       if (the key of index is the one) ...

#include "encode/graph/pool.h"

struct lookup_table {
    uint64_t mask;
    uint64_t slot[]; // hash (upper 32 bits), index + 1; 0: free
};

struct lookup {
    struct lookup_table *table; // published with release, read with acquire
    uint64_t count;
};

struct lookup_cursor {
    const struct lookup_table *table;
    uint64_t at;
    uint32_t hash;
};

static inline uint32_t lookup_hash(uint64_t first, uint64_t second)
{
    uint64_t hash = (first ^ second * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32 ^ hash >> 13);
}

bool lookup_add(struct lookup *lookup, struct pool *pool, uint32_t hash, uint32_t index);

static inline struct lookup_cursor lookup_start(const struct lookup *lookup, uint32_t hash)
{
    const struct lookup_table *table = __atomic_load_n(&lookup->table, __ATOMIC_ACQUIRE);
    return (struct lookup_cursor){table, hash, hash};
}

static inline bool lookup_next(struct lookup_cursor *cursor, uint32_t *index)
{
    if (!cursor->table)
        return false;
    for (;; cursor->at++) {
        // Pairs with the release in lookup_add(): what the index leads to is written.
        uint64_t slot = __atomic_load_n(&cursor->table->slot[cursor->at & cursor->table->mask],
                                        __ATOMIC_ACQUIRE);
        if (!slot)
            return false;
        if (slot >> 32 == cursor->hash) {
            cursor->at++;
            *index = (uint32_t)slot - 1;
            return true;
        }
    }
}

#endif
