// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_RELOCATE_H
#define CAIRN_PATCH_X86_64_RELOCATE_H

// Instructions that stand elsewhere than they were written for.

#include "patch/x86_64/decode.h"

#define RELOCATED_MOST (INSTRUCTION_MOST + 4) // a short branch becomes a long one

// True if it can be moved as the neighbour of a site.
bool relocate_can(const struct instruction *in);

// True if it moves the stack pointer, or may.
bool relocate_touches_stack(const struct instruction *in);

// The instruction `bytes` of `from` as it must be at `to`: writes it to `code`, returns its length.
// 0: it would not reach what it refers to.
size_t relocate_make(unsigned char *code, const struct instruction *in, const unsigned char *bytes,
                     uintptr_t from, uintptr_t to);

// Four bytes that lead from `end` (of an instruction) to `target`. False: too far.
bool relocate_distance(uintptr_t end, uintptr_t target, int32_t *distance);

// A jump of five bytes that stands at `from`. False: too far.
#define RELOCATED_JUMP 0xe9
bool relocate_jump(unsigned char *code, uintptr_t from, uintptr_t to);

#endif
