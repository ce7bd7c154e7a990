// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_CHAIN_H
#define CAIRN_PATCH_X86_64_CHAIN_H

// The known targets of an indirect call or jump. The target is on the stack: it is compared with
// each of a few; of many, a table leads to the few that it may be. A known target leads to its arm,
// a stub of its own; an unknown one to the hook.
//
//   target == A? ─► A's arm          table[target / 16 % 64] ─► target == C? ─► C's arm
//   target == B? ─► B's arm                                 └─► target == D? ─► D's arm
//   none of them ─► the hook                                    none of them ─► the hook

#include "patch/x86_64/emit.h"

// `scratch`: a register is free. Of a jump, *popped is where the target leaves the stack.
void emit_chain(struct assembler *out, const struct stub_plan *plan, bool tail, bool scratch,
                uint16_t *popped);

#endif
