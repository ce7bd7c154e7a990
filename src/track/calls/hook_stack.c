// SPDX-License-Identifier: MIT
#include "track/calls/hook_stack.h"
#include "base/kernel.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define ROOM_BYTES 16384 // that the long way of a hook may take

// Of the samples, and of faults that cannot wait.
#define NEVER_BLOCKED                                                                              \
    (UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGSTKFLT - 1) |                               \
     UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1))

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
    static const uint64_t blocked = ~NEVER_BLOCKED;
    if (!stack->top || kernel_call(SYS_gettid, 0, 0, 0, 0) != stack->thread)
        return 0;
    if (is_on(stack, sp))
        return sp;
    struct kept_stack *kept = kept_of(stack);
    if (kept->busy) // such a handler, on a stack of its own
        return 0;
    kernel_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&blocked, (long)&kept->mask,
                sizeof kept->mask);
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
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&kept->mask, 0, sizeof kept->mask);
}
