// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_LEAF_CODE_H
#define CAIRN_PATCH_FUNCTIONS_LEAF_CODE_H

// Leaf functions without unwind tables: assembly, as codecs have it, called through tables of
// functions. No table says where such a function ends, so all ways through its code are followed.

#include <stdbool.h>
#include <stdint.h>

// Whether no way from an address leads to code that a table covers, or to where the code does not
// say, until it returns. Calls of code of the same kind are followed, too.
bool leaf_code_is(uintptr_t address);

#endif
