// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_LEAF_FUNCTIONS_H
#define CAIRN_TRACK_ENCODE_SITES_LEAF_FUNCTIONS_H

// Leaf functions (patch/leaf_functions.h): calls of them are left as they are, and are no edges. What runs in
// one has the number of the function that called it.

#include "base/place.h"
#include <stdbool.h>

// Whether calls of the target are left as they are. Under the lock.
bool encode_calls_leaf(uintptr_t target);
bool encode_is_leaf(place_t function); // signal-safe

#endif
