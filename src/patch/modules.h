// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_MODULES_H
#define CAIRN_PATCH_MODULES_H

// The half of functions.h that deals with names.

#include <stdbool.h>
#include <stdint.h>

bool modules_is_named(uintptr_t function); // one whose calls must stay
void modules_forget(uintptr_t start, uintptr_t end);

#endif
