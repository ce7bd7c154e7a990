// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_CONFIRMED_H
#define CAIRN_TRACK_ENCODE_THREADS_CONFIRMED_H

// Contexts that a walk has confirmed.

#include "base/place.h"
#include "tree/tree.h"

struct encode_memo { // a context that a walk has confirmed
    uint64_t key, id;
    place_t function;
    place_t site;   // that the function was called from; 0: it is the root
    uintptr_t slot; // and where that has left its return address; 0: anywhere
    uint32_t stamp;
    ref_t tree, node;
};

#endif
