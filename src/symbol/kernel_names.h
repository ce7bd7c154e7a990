// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_KERNEL_NAMES_H
#define CAIRN_SYMBOL_KERNEL_NAMES_H

// Names for places in the kernel (see MODULE_KERNEL): system calls by their numbers, functions by
// the recording's own list.

#include "profile/profile.h"
#include "symbol/names/pool.h"

struct kernel_names {
    const struct profile_function **functions; // by where they begin
    size_t count;
};

void kernel_names_open(struct kernel_names *names, const struct profile *profile);
void kernel_names_close(struct kernel_names *names);

// The name of what stands at a place, never NULL, and where it begins.
const char *kernel_name(const struct kernel_names *names, struct text_pool *pool, place_t place,
                        place_t *begin);

#endif
