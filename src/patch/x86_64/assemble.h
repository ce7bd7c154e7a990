// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_ASSEMBLE_H
#define CAIRN_PATCH_X86_64_ASSEMBLE_H

// The code of a stub.

#include "patch/stubs/stub.h"

// Writes the slot of `stub` (its code address is known) to `code`, and fills in its offsets.
// Returns the number of bytes; 0 if something is out of reach, or the plan does not fit the site.
size_t assemble(struct stub *stub, const struct stub_plan *plan, unsigned char code[STUB_MOST]);

// Bytes that the slot will need, wherever it is; 0 if the plan does not fit.
size_t assemble_size(struct site *site, const struct stub_plan *plan);

#endif
