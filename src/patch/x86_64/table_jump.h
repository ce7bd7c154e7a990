// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_TABLE_JUMP_H
#define CAIRN_PATCH_X86_64_TABLE_JUMP_H

// Distinguishes an indirect tail call from the jump of a switch, by the computation of its target
// in the instructions before it. In doubt it is a switch.

#include "patch/x86_64/decode.h"

#define TRAIL 32

struct jump_trail {
    struct instruction last[TRAIL];
    unsigned count; // of all instructions so far
};

void trail_add(struct jump_trail *trail, const struct instruction *in);

// True if the indirect jump that comes next leaves its function for sure.
bool trail_leaves(const struct jump_trail *trail, const struct instruction *jump);

#endif
