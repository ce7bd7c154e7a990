// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_SPACE_H
#define CAIRN_OUTSIDE_SPACE_H

// The code in the address space of a foreign process, as the kernel tells of it.

#include "outside/mirror.h"

struct space_mapping {
    uint64_t start, end;
    const struct mirror *mirror; // NULL: code of no file
    uintptr_t shift;             // from there to the mirror
};

struct space {
    struct space_mapping *mappings; // in order of address
    size_t count, capacity;
    uint64_t stack_start; // where the first thread's stack begins; 0: not known
};

// Code is mapped: over what was there.
void space_map(struct space *space, const struct mirrored_file *file, uint64_t offset);

// All that /proc knows; or the begin of the stack alone.
void space_read(struct space *space, pid_t pid);
void space_read_stack(struct space *space, pid_t pid);

// A copy for a child, and an empty one.
void space_copy(struct space *to, const struct space *from);
void space_clear(struct space *space);

// NULL: no code, as far as is known.
const struct space_mapping *space_find(const struct space *space, uint64_t address);

// The address in the mirror; the same address where there is none.
static inline uintptr_t space_translate(const struct space *space, uint64_t address)
{
    const struct space_mapping *mapping = space_find(space, address);
    return mapping && mapping->mirror ? address + mapping->shift : address;
}

#endif
