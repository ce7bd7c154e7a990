// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_WRITE_GROWING_LIST_H
#define CAIRN_PATCH_WRITE_GROWING_LIST_H

// A list in memory of its own, which moves as it grows. Zero-initialized.

#include <stddef.h>

struct growing_list {
    unsigned char *start;
    size_t used, room; // bytes
};

// Room for another item; NULL: no memory.
void *growing_list_add(struct growing_list *growing, size_t bytes);
// Forgets all items, and returns the memory if that is much.
void growing_list_clear(struct growing_list *growing);

#endif
