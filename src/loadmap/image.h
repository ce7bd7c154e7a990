// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_IMAGE_H
#define CAIRN_LOADMAP_IMAGE_H

// The description of an ELF image in memory, by its headers. Signal-safe: reads memory and nothing
// else.

#include "loadmap/loadmap.h"
#include <elf.h>
#include <link.h>

#define BUILD_ID_MOST 64

struct image {
    struct module_ref ref; // all but the id
    uintptr_t first_end;   // of the mapping that begins at ref.start
    unsigned build_id_bytes;
    unsigned char build_id[BUILD_ID_MOST];
};

// From program headers that the loader vouches for.
void image_from_headers(struct image *image, uintptr_t bias, const ElfW(Phdr) * headers,
                        unsigned count);

// Of the same headers: whose language it is compiled from, and whether it unwinds.
void image_find_runtime(struct image *image, uintptr_t bias, const ElfW(Phdr) * headers,
                        unsigned count);

// From the ELF header at `start`, which is checked; nothing outside of [start, end) is read. `bias`
// is used if the caller knows it from the loader (NULL: worked out, and its runtime is not asked
// for). False if these are no headers to rely on.
bool image_from_memory(struct image *image, uintptr_t start, uintptr_t end, const uintptr_t *bias);

#endif
