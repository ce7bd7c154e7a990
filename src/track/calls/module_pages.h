// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_MODULE_PAGES_H
#define CAIRN_TRACK_CALLS_MODULE_PAGES_H

// Which module has the code at an address, however many there are. Hooks of callbacks ask that for
// each call that libc makes through a pointer, so it must take a few instructions only. A module
// has whole pages, and pages lie in chunks of 2 MB, which have their places in a table.
//
//      address:   | chunk           | page (9) | (12) |
//                        |               |
//      tags:      [..| chunk |..]        |            0: free
//      pages:     [..| 512 x 2 bytes |..]             0: no module, else its number + 1
//
// Written under the loader's lock, or before there are threads; read anywhere, without a lock.

#include <stddef.h>
#include <stdint.h>

#define CALLS_CHUNKS 8192 // a power of two
#define CALLS_CHUNK_SHIFT 21
#define CALLS_CHUNK_PAGES 512
#define CALLS_PAGE_FOLLOWED 0x8000

typedef uint16_t calls_page_t;

// All pages of a range are to say that.
void calls_pages_put(uintptr_t start, uintptr_t end, calls_page_t page);

// Signal-safe.
calls_page_t calls_pages_at(uintptr_t address);

#endif
