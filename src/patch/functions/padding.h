// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_PADDING_H
#define CAIRN_PATCH_FUNCTIONS_PADDING_H

// A jump of two bytes reaches the padding between functions, where a jump of five bytes has room:
// an island. In a transaction.

#include <stdint.h>

// An island to `place`, within reach of a jump of two bytes that ends at `end`, which the
// transaction will write if it is new. 0: there is no room.
uintptr_t padding_island(uintptr_t end, uintptr_t place);

// Room for an island of the caller's own, within the same reach. 0: there is none.
uintptr_t padding_take(uintptr_t end);

// The padding from this address on is gone: another library may be there.
void padding_forget(uintptr_t start);

#endif
