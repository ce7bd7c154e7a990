// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_MODULES_H
#define CAIRN_PATCH_FUNCTIONS_MODULES_H

// The part of functions.h that deals with modules that go.

#include <stdbool.h>
#include <stdint.h>

// Takes a module with memory in a range out of the list. NULL: none.
struct patch_module *modules_take_out(uintptr_t start, uintptr_t end);
void modules_free(struct patch_module *module); // which was taken out

#endif
