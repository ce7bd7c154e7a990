// SPDX-License-Identifier: MIT
#include "encode/graph/lookup.h"

static void place_slot(struct lookup_table *table, uint64_t slot)
{
    uint64_t at = slot >> 32;
    while (table->slot[at & table->mask])
        at++;
    __atomic_store_n(&table->slot[at & table->mask], slot, __ATOMIC_RELEASE);
}

static bool grow(struct lookup *lookup, struct pool *pool)
{
    const struct lookup_table *old = lookup->table;
    uint64_t slots = old ? (old->mask + 1) * 2 : 64;
    struct lookup_table *table = pool_alloc(pool, sizeof *table + slots * sizeof table->slot[0]);
    if (!table)
        return false;
    table->mask = slots - 1;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        if (old->slot[i])
            place_slot(table, old->slot[i]);
    }
    __atomic_store_n(&lookup->table, table, __ATOMIC_RELEASE);
    return true;
}

bool lookup_add(struct lookup *lookup, struct pool *pool, uint32_t hash, uint32_t index)
{
    if ((!lookup->table || lookup->count * 2 > lookup->table->mask) && !grow(lookup, pool))
        return false;
    place_slot(lookup->table, (uint64_t)hash << 32 | (index + 1));
    lookup->count++;
    return true;
}
