// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_KERNEL_NAMES_H
#define CAIRN_SYMBOL_KERNEL_NAMES_H

// Names for places in the kernel (see MODULE_KERNEL): system calls by their numbers.

#include "symbol/pool.h"
#include <stdint.h>

// The name of what stands at an offset; never NULL.
const char *kernel_name(struct pool *pool, uint64_t offset);

#endif
