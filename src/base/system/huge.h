// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_HUGE_H
#define CAIRN_BASE_SYSTEM_HUGE_H

// Pages before they are asked for, and huge ones under memory that is shared by way of a file. A
// page of 4 KB takes microseconds to come into being, when it is written first, and then a place in
// the processor's list of pages, which is short. Of a large tree that is met all over the place,
// both show.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HUGE_BYTES ((size_t)2 << 20)

// mmap(), at an address where pages of HUGE_BYTES of the file can be mapped as one.
void *huge_map(size_t bytes, int protection, int flags, int fd, off_t offset);

// Puts a huge page at that address, with what is there. False: it cannot be had. Signal-safe, and
// leaves errno alone.
bool huge_make(uintptr_t address);

// Pages of the usual size in this range, which begins at any address, if the system knows how: it
// takes a fifth of the time that they take one by one. The same holds.
void huge_fill(uintptr_t address, size_t bytes);

// Whole pages of this range are empty in a child of fork, which then need not copy them. The same
// holds.
void huge_wipe_in_child(uintptr_t address, size_t bytes);

#endif
