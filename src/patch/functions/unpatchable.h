// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_UNPATCHABLE_H
#define CAIRN_PATCH_FUNCTIONS_UNPATCHABLE_H

// Functions whose calls stay as they are, by name: their caller must be the original code. Frames
// that the marker leaves alone are another list (track/walk/unmarkable.c): there the return address
// must stay, here the call instruction.

#include <stdbool.h>
#include <stdint.h>

// Finds them. Once, before the first site is looked for.
void unpatchable_start(void);

bool unpatchable_is(uintptr_t function); // that begins there
bool unpatchable_name(const char *name);

#endif
