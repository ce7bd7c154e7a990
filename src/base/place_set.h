// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_PLACE_SET_H
#define CAIRN_BASE_PLACE_SET_H

// A few places that any thread may add to and look up, in signal handlers too. Nothing is ever
// removed. All accesses are relaxed: each entry is a number by itself, and a thread that does not
// see an entry yet behaves as if it had come a moment earlier.

#include "base/place.h"
#include <stdatomic.h>
#include <stdbool.h>

#define PLACE_SET_SIZE 8

struct place_set {
    _Atomic place_t places[PLACE_SET_SIZE]; // the first 0 ends the list
};

static inline bool place_set_has(const struct place_set *set, place_t place)
{
    place_t one;
    for (unsigned i = 0;
         i < PLACE_SET_SIZE && (one = atomic_load_explicit(&set->places[i], memory_order_relaxed));
         i++)
        if (one == place)
            return true;
    return false;
}

// False if the set is full.
static inline bool place_set_add(struct place_set *set, place_t place)
{
    for (unsigned i = 0; i < PLACE_SET_SIZE; i++) {
        place_t present = 0;
        if (atomic_compare_exchange_strong_explicit(&set->places[i], &present, place,
                                                    memory_order_relaxed, memory_order_relaxed) ||
            present == place)
            return true;
    }
    return false;
}

#endif
