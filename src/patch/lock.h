// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_LOCK_H
#define CAIRN_PATCH_LOCK_H

// The one lock of call site patching, and the index of sites that it guards.

#include "patch/bump_allocator.h"

int patch_lock(void); // as lock_take()
void patch_unlock(void);

extern struct address_index patch_sites
    __attribute__((visibility("hidden"))); // and islands, by address

#endif
