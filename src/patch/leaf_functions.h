// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_LEAF_FUNCTIONS_H
#define CAIRN_PATCH_LEAF_FUNCTIONS_H

// Functions that come back without having called anything but functions of the same kind, a few
// deep and in no circle, by calls whose targets their code tells. While one runs, nothing above it
// on the stack can be of interest to anybody but a sample, which has a few frames to walk then. So
// calls of such functions need not be followed: most of all calls that programs make.

#include <stdbool.h>
#include <stdint.h>

#define LEAF_HEIGHT 3 // calls below one another, at most

// Whether the function that begins at an address is quiet. If so `each` is told of it and of all
// functions that it may go to, parts of functions included, each once for all.
bool leaf_function_is(uintptr_t address, void (*each)(uintptr_t function, void *context),
                      void *context);

#endif
