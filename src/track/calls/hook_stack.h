// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_HOOK_STACK_H
#define CAIRN_TRACK_HOOK_STACK_H

// The stack that a hook runs on where the program's may have no room for it.
//
// The short way of a hook takes a few words. The long way saves all vector registers, unwinds, and
// may ask the loader: 5 KB and more. A coroutine's stack, a segment of a split stack or an
// alternate stack need not have that. So the long way stays on the program's stack only if that is
// the thread's own, and far from its end. Elsewhere it moves to memory of the agent's:
//
//      any other stack                      hook stack
//     | the program's frame |              | mask of signals |
//     | registers, rbp      | ◄── rbp      | vectors         |
//     | a few words         |              | the hook's C    | ◄── rsp
//
// Signals of the program wait meanwhile: their handlers belong on the program's stack. Samples do
// not: they have a stack of their own. The frame pointer leads unwinders back.

#include "unwind/unwind.h"
#include <stdint.h>
#include <sys/types.h>

#define HOOK_STACK_BYTES 65536 // hardly any of it is ever touched

// The assembly relies on the layout: hook_x86_64.h.
struct hook_stack {
    uintptr_t low, bytes; // 0, 8: of the thread's own stack, but for what is too close to its end
    uintptr_t top;        // 16: of the memory; 0: there is none
    pid_t thread;         // 24: that it belongs to
};

// Of a thread with that stack; `memory` has HOOK_STACK_BYTES.
void hook_stack_open(struct hook_stack *stack, void *memory, pid_t thread,
                     struct unwind_bounds own);

// The hook has come to a stack that may be too small. The stack pointer to continue with, until
// hook_stack_leave(); or 0: the hook must not continue. It is that of another thread, made by a
// plain clone() that shares thread-local variables, or of a handler that has interrupted a hook.
// Both touch no vector register, and little stack. Signal-safe.
uintptr_t hook_stack_take(const struct hook_stack *stack, uintptr_t sp);
void hook_stack_leave(const struct hook_stack *stack, uintptr_t sp);

#endif
