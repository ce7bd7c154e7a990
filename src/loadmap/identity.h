// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_IDENTITY_H
#define CAIRN_LOADMAP_IDENTITY_H

// Which module is which: a path and a build id, as a hash of both.

#include "loadmap/image.h"

uint64_t identity_of_name(const char *name);
uint64_t identity_of(const char *name, const struct image *image);

// The id of one; 0 if all ids are taken. *moved: to be announced.
unsigned identity_id(uint64_t hash, uintptr_t base, bool *moved);

#endif
