// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_CONFIRMED_H
#define CAIRN_TRACK_ENCODE_THREADS_CONFIRMED_H

// Contexts that a walk has confirmed: the state of the thread, and what of the stack must be as it
// was for the state to be believed. A thread has one table of them, which it alone reads and writes:
//
//   of a frame   that a sample hit, or climbed to; evidence is where its function was called from
//   of a call    by which the program asks for its context, or causes an event; evidence is the
//                word that the caller returns by
//
// Signal-safe, all of it.

#include "base/place.h"
#include "tree/tree.h"
#include <stdatomic.h>

struct confirmed {
    uint64_t key;     // context_key() of the state, in the encoding `stamp`, and of `at`
    uint64_t at;      // of a call: what it returns to; of a frame: confirmed_frame()
    uint64_t caller;  // what the function there returns to: the word, or the place; 0: the root
    uintptr_t slot;   // where that word lies; 0: anywhere. Of a call: above the stack pointer
    uintptr_t sp;     // for which the handle is
    uint32_t stamp;   // see key
    uint32_t unloads; // of libraries, before it was made
    ref_t tree, node; // 0: not known
    uint64_t handle;  // what the program gets; 0: not known
};

enum { CONFIRMED_MOST = 1 << 13 };

struct confirmed_table {
    uint32_t changes; // so far: a reader notices by them what a signal's handler has changed
    // In a child it is empty: handles are of the process that made them.
    _Alignas(4096) struct confirmed one[CONFIRMED_MOST];
};

// No address is like it.
static inline uint64_t confirmed_frame(place_t function)
{
    return ~function;
}

static inline uint32_t confirmed_changes(const struct confirmed_table *table)
{
    const uint32_t changes = __atomic_load_n(&table->changes, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    return changes;
}

// Whether what was read of the table since then is whole.
static inline bool confirmed_is_whole(const struct confirmed_table *table, uint32_t changes)
{
    atomic_signal_fence(memory_order_seq_cst);
    return __atomic_load_n(&table->changes, __ATOMIC_RELAXED) == changes;
}

// Two contexts that come in turns and have the same place would both be walked each time: there is
// another one.
static inline uint32_t confirmed_second(uint64_t key)
{
    return (uint32_t)(key / CONFIRMED_MOST % CONFIRMED_MOST);
}

static inline bool confirmed_is(const struct confirmed *one, uint64_t key, uint64_t at)
{
    return one->key == key && one->at == at;
}

// NULL: it is not there.
static inline const struct confirmed *confirmed_find(const struct confirmed_table *table,
                                                     uint64_t key, uint64_t at)
{
    const struct confirmed *one = &table->one[key % CONFIRMED_MOST];
    if (one->key != key)
        one = &table->one[confirmed_second(key)];
    return confirmed_is(one, key, at) ? one : NULL;
}

// If the same context is there, the node or the handle that this one lacks is kept. All signals are
// blocked.
void confirmed_put(struct confirmed_table *table, const struct confirmed *value);

#endif
