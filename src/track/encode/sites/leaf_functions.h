// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_LEAF_FUNCTIONS_H
#define CAIRN_TRACK_ENCODE_SITES_LEAF_FUNCTIONS_H

// Leaf functions (patch/functions/leaf_functions.h): calls of them are left as they are, and are no edges. Code in
// one has the number of the function that called it. So have the entries for linkage that calls go
// through: what such a call has added is for the function that it leads to.

#include "base/place.h"
#include <stdbool.h>

// Whether calls of the target are left as they are. Under the lock.
bool encode_calls_leaf(uintptr_t target);
void encode_note_linkage(uintptr_t entry); // a call goes there; likewise
bool encode_is_leaf(place_t function);     // signal-safe

#endif
