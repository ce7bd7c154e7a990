// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_MINERS_MONITORED_LIST_H
#define CAIRN_TREE_MINERS_MONITORED_LIST_H

// M, the list of monitored contexts; for miner*.c alone. It grows part by part, each as large as
// all before it and 16 more, so that nothing is ever copied or left behind.

#include "tree/layout.h"
#include "tree/miners/miner.h"

static inline ref_t *miner_slot(const struct arena *arena, const struct miner *miner,
                                uint32_t index)
{
    const uint32_t place = index + MINER_FIRST;
    const unsigned power = 31 - (unsigned)__builtin_clz(place);
    ref_t *part = arena_at(arena, miner->parts[power - 4]);
    return &part[place - (UINT32_C(1) << power)];
}

// False where the program has scribbled over it.
static inline bool miner_is_whole(const struct arena *arena, const struct miner *miner)
{
    return miner->count <= miner->room && miner->room <= arena->bytes / sizeof(ref_t);
}

static inline struct node *miner_node(const struct arena *arena, const struct miner *miner,
                                      uint32_t index)
{
    return tree_node(arena, *miner_slot(arena, miner, index));
}

static inline uint64_t miner_count(const struct node *node)
{
    return __atomic_load_n(&node->value[0], __ATOMIC_RELAXED);
}

static inline void miner_set(uint64_t *value, uint64_t to)
{
    __atomic_store_n(value, to, __ATOMIC_RELAXED);
}

static inline void miner_raise_floor(struct miner *miner, uint64_t to)
{
    if (to > atomic_load_explicit(&miner->floor, memory_order_relaxed))
        atomic_store_explicit(&miner->floor, to, memory_order_relaxed);
}

static inline void miner_add_excess(struct miner *miner, uint64_t change)
{
    atomic_store_explicit(&miner->excess,
                          atomic_load_explicit(&miner->excess, memory_order_relaxed) + change,
                          memory_order_relaxed);
}

// Appends. False: no memory, or as many as there may be.
bool miner_append(struct arena *arena, ref_t tree, struct miner *miner, ref_t node);

// N, hooks' own counts included, by a scan of M.
uint64_t miner_sum_up(const struct arena *arena, struct miner *miner);

// The last one takes its place.
void miner_remove(const struct arena *arena, struct miner *miner, uint32_t index);

// A node becomes a monitored context, which hooks of calls may count by themselves, or stops being
// one. Readers look at the key first: it changes before the values do.
static inline void miner_begin(struct node *node, uint64_t count, uint64_t error)
{
    // Release: a reader that finds the new values finds the key they came with.
    __atomic_store_n(&node->edge, node->edge & ~TREE_UNMONITORED, __ATOMIC_RELEASE);
    miner_set(&node->value[1], error);
    miner_set(&node->value[0], count);
}

static inline void miner_end(struct node *node)
{
    __atomic_store_n(&node->edge, node->edge | TREE_UNMONITORED, __ATOMIC_RELEASE);
    miner_set(&node->value[0], 0);
    miner_set(&node->value[1], 0);
}

ref_t saving_give_up(struct arena *arena, ref_t tree, struct miner *miner);

void lossy_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                  uint64_t amount);
ref_t lossy_victim(struct arena *arena, struct miner *miner);

void sticky_update(struct arena *arena, ref_t tree, struct miner *miner, ref_t node,
                   uint64_t amount);
ref_t sticky_victim(struct arena *arena, struct miner *miner);

#endif
