// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_DETOUR_H
#define CAIRN_PATCH_DETOUR_H

// Calls that come by a hook on their way, and return to where they always did.
//
//   f:  call g          f:  call detour of g ──►  detour of g:  call hook
//       ...      ──►        ...  ◄──────┐                       jmp  g
//                                   g:  └─ ret
//
// Of a direct call, jump or conditional jump only the distance changes: all that lead to g share
// one detour, and whatever looks at a return address finds the true one: unwinders, setjmp, dlsym.
// An indirect call of five bytes or more becomes a direct one of the same length, to a detour of
// its own which pushes the operand for the hook. A shorter one needs a stub (sites.h).
//
// No thread may be running in the code that is changed. Detours are planned in a transaction, and
// take effect when it commits, with THREADS_NONE.

#include "patch/sites.h"
#include "patch/stubs/detour_hooks.h"
#include "unwind/unwind.h"

void detours_start(const struct detour_hooks *hooks);

// The direct call or jump at `instruction` shall come by the hook and go on to `target`, which
// stands for `function` (mostly the same). One of two
// bytes does so by a jump in the padding between functions nearby. -ENOMEM: no memory within reach;
// -ENOTSUP: it is no such instruction, or there is no padding.
int detour_plan(uintptr_t instruction, uintptr_t target, uintptr_t function);

// The same for one whose function lies in a word of the GOT that the loader has not filled yet. The
// hook is that of indirect ones.
int detour_plan_slot(uintptr_t instruction, uintptr_t slot);

// The indirect call or jump at `instruction` (as decoded: `length` bytes). -ENOTSUP: it is short,
// or its operand is found by the stack pointer.
int detour_plan_indirect(uintptr_t instruction, enum detour_hook hook);

// The same for an indirect jump that is too short: the instructions right before it, which take the
// frame down, move with it. The function from `start` to `end` is all code, and no jump through a
// table is in it. -ENOTSUP: code jumps there, or there is too little of it.
int detour_plan_tail(uintptr_t instruction, uintptr_t start, uintptr_t end);

// The function that a detour stands for, from the address that its hook returns to; 0: it is no
// detour, or not a direct one. Signal-safe.
uintptr_t detour_function(uintptr_t back);

// True if a direct call that ends at this address goes by a detour. Signal-safe.
bool detour_is_before(uintptr_t return_address);

// For a thread in a detour, or a hook that returns there: where it would be without. The function
// it enters, or, of an indirect one, its site. False: not in a detour. Signal-safe.
enum unwind_standing detour_truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted);

#endif
