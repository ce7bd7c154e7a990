// SPDX-License-Identifier: MIT
#include "track/encode/threads/confirmed.h"

static bool is_same_call(const struct confirmed *one, const struct confirmed *other)
{
    return confirmed_is(one, other->key, other->at) && one->caller == other->caller &&
           one->slot == other->slot && one->stamp == other->stamp && one->unloads == other->unloads;
}

void confirmed_put(struct confirmed_table *table, const struct confirmed *value)
{
    struct confirmed *place = &table->one[value->key % CONFIRMED_MOST];
    if (place->key && place->key != value->key && place->stamp == value->stamp)
        place = &table->one[confirmed_second(value->key)];
    struct confirmed put = *value;
    const bool same = is_same_call(place, value);
    if (same && !put.node) {
        put.tree = place->tree;
        put.node = place->node;
    }
    if (same && !put.handle) {
        put.sp = place->sp;
        put.handle = place->handle;
    }
    __atomic_store_n(&table->changes, table->changes + 1, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    *place = put;
}
