// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_LEAF_FUNCTIONS_H
#define CAIRN_PATCH_FUNCTIONS_LEAF_FUNCTIONS_H

// Functions that call nothing but functions of the same kind before they return, a few deep and in
// no circle, by calls whose targets are in their code. While one runs, only a sample looks at the
// stack above it, and has a few frames to walk then. So calls of such functions need not be
// followed: these are most calls of a program.

#include <stdbool.h>
#include <stdint.h>

#define LEAF_HEIGHT 3 // calls below one another, at most

// Whether the function that begins at an address is a leaf. If so, calls `each` for it and for all
// functions that it may go to, parts of functions included, once for each.
bool leaf_function_is(uintptr_t address, void (*each)(uintptr_t function, void *context),
                      void *context);

#endif
