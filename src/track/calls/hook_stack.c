// SPDX-License-Identifier: MIT
#include "track/calls/hook_stack.h"
#include "base/system/signal_mask.h"
#include <stdatomic.h>
#include <stdbool.h>

#define ROOM_BYTES 16384 // that the long way of a hook may take

void hook_stack_open(struct hook_stack *stack, void *memory, pid_t thread, struct unwind_bounds own)
{
    const uintptr_t bytes = own.high - own.low;
    *stack = (struct hook_stack){
        .low = own.low + ROOM_BYTES,
        .bytes = bytes > ROOM_BYTES ? bytes - ROOM_BYTES : 0,
        .top = ((uintptr_t)memory + HOOK_STACK_BYTES) & -(uintptr_t)16,
        .thread = thread,
    };
}

// On top of the memory. Two words, so that the stack pointer stays aligned.
struct kept_stack {
    uint64_t mask;
    uint64_t busy;
};

static struct kept_stack *kept_of(const struct hook_stack *stack)
{
    return (struct kept_stack *)stack->top - 1;
}

// A handler of the program has interrupted a hook there, and was led to the same stack: for a
// signal that is never blocked.
static bool is_on(const struct hook_stack *stack, uintptr_t sp)
{
    return stack->top - sp <= HOOK_STACK_BYTES;
}

uintptr_t hook_stack_take(const struct hook_stack *stack, uintptr_t sp)
{
    if (!stack->top || kernel_call(SYS_gettid, 0, 0, 0, 0) != stack->thread)
        return 0;
    if (is_on(stack, sp))
        return sp;
    struct kept_stack *kept = kept_of(stack);
    if (kept->busy) // such a handler, on a stack of its own
        return 0;
    signal_mask_hold(&kept->mask);
    atomic_signal_fence(memory_order_seq_cst);
    kept->busy = 1;
    return (uintptr_t)kept;
}

void hook_stack_leave(const struct hook_stack *stack, uintptr_t sp)
{
    struct kept_stack *kept = kept_of(stack);
    if (is_on(stack, sp))
        return;
    kept->busy = 0;
    atomic_signal_fence(memory_order_seq_cst);
    signal_mask_release(&kept->mask);
}
