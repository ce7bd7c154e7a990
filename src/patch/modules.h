// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_MODULES_H
#define CAIRN_PATCH_MODULES_H

// The half of functions.h that deals with names.

#include <stdbool.h>
#include <stdint.h>

bool modules_is_named(uintptr_t function); // one whose calls must stay
void modules_forget(uintptr_t start, uintptr_t end);

// The extent of a module that is known and was loaded after the program had begun. False: none.
bool modules_loaded_later(uintptr_t range[2]);

#endif
