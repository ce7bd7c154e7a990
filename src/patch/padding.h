// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_PADDING_H
#define CAIRN_PATCH_PADDING_H

// A jump of two bytes reaches the padding between functions, where a jump of five bytes has room:
// an island.

#include <stddef.h>
#include <stdint.h>

// Takes note of bytes that are to be written. 0 or -errno.
typedef int padding_writer(uintptr_t address, const void *code, size_t bytes);

// An island to `place`, within reach of a jump of two bytes that ends at `end`; a new one is
// written by `write`. 0: there is no room. Under the lock of sites.h, and between loadmap_enter and
// loadmap_leave.
uintptr_t padding_island(uintptr_t end, uintptr_t place, padding_writer *write);

// Room for an island of the caller's own, within the same reach. 0: there is none. As above.
uintptr_t padding_take(uintptr_t end);

// The padding from this address on is gone: another library may be there. Under the lock.
void padding_forget(uintptr_t start);

#endif
