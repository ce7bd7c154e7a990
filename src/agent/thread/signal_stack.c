// SPDX-License-Identifier: MIT
#include "agent/thread/signal_stack.h"
#include "agent/session/system_call.h"
#include "agent/thread/signal_frame.h"
#include "base/system/agent_map.h"
#include "unwind/arch.h"
#include "unwind/stack.h"
#include <errno.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

// Besides the kernel's frame. A sample takes less than a tenth of it; the rest is for runtimes that
// ask the kernel itself for the thread's alternate stack, and use the one that there is (Go).
#define ROOM_BYTES (64 << 10)
#define PAGE_BYTES 4096
#define TOUCHED_BYTES 8192 // by samples
#define LEAST_BYTES 2048   // for the kernel, whatever its frames take

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

bool signal_stack_forbidden;
_Atomic bool signal_stack_is_shared;

static size_t stack_bytes(void)
{
    const size_t frame = getauxval(AT_MINSIGSTKSZ);
    return (ROOM_BYTES + frame + PAGE_BYTES - 1) & -(size_t)PAGE_BYTES;
}

static long register_stack(const stack_t *stack, stack_t *before)
{
    return syscall_raw(SYS_sigaltstack, stack, before);
}

// A sample that comes in between sees the old one, none, or the new one.
static void believe(struct unwind_bounds stack)
{
    stack_alternate.high = 0;
    atomic_signal_fence(memory_order_seq_cst);
    stack_alternate.low = stack.low;
    atomic_signal_fence(memory_order_seq_cst);
    stack_alternate.high = stack.high;
}

static struct unwind_bounds bounds_of(const stack_t *stack)
{
    struct unwind_bounds bounds = {0};
    if (!(stack->ss_flags & SS_DISABLE)) {
        bounds.low = (uintptr_t)stack->ss_sp;
        bounds.high = bounds.low + stack->ss_size;
    }
    return bounds;
}

static stack_t believed(void)
{
    const struct unwind_bounds stack = stack_alternate;
    if (!stack.high)
        return (stack_t){.ss_flags = SS_DISABLE};
    return (stack_t){.ss_sp = (void *)stack.low, .ss_size = stack.high - stack.low};
}

static bool map_stack(struct thread *thread)
{
    const size_t bytes = stack_bytes();
    void *memory = agent_map(bytes);
    if (!memory)
        return false;
    atomic_fetch_add_explicit(&agent.process->agent_bytes, TOUCHED_BYTES, memory_order_relaxed);
    thread->signal_stack = (struct unwind_bounds){(uintptr_t)memory, (uintptr_t)memory + bytes};
    return true;
}

void signal_stack_open(struct thread *thread)
{
    const struct unwind_bounds *stack = &thread->signal_stack;
    if (signal_stack_forbidden || agent.attached || arch_protects_returns() ||
        (!stack->high && !map_stack(thread)))
        return;
    const stack_t ours = {.ss_sp = (void *)stack->low, .ss_size = stack->high - stack->low};
    stack_t before;
    if (register_stack(&ours, &before))
        return;
    if ((unsigned)before.ss_flags & SS_AUTODISARM) {
        register_stack(&before, NULL);
        return;
    }
    believe(bounds_of(&before));
    stack_of_handlers = *stack;
}

// Hands the kernel what the program believes it to have.
static void give_up_stack(const stack_t *instead)
{
    stack_of_handlers = (struct unwind_bounds){0};
    register_stack(instead, NULL);
    believe((struct unwind_bounds){0});
}

void signal_stack_close(struct thread *thread)
{
    if (!stack_of_handlers.high)
        return;
    if (signal_stack_forbidden) {
        thread->signal_stack = (struct unwind_bounds){0}; // the kernel uses it to the end
        return;
    }
    const stack_t own = believed();
    give_up_stack(&own);
}

// As the kernel sees it.
static bool is_on(const struct unwind_bounds *stack, uintptr_t sp)
{
    return stack->high && sp > stack->low && sp <= stack->high;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static int change_stack(const stack_t *wanted, bool on_it)
{
    const unsigned flags = (unsigned)wanted->ss_flags, mode = flags & ~SS_AUTODISARM;
    if (on_it)
        return refuse(EPERM);
    if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
        return refuse(EINVAL);
    if (mode != SS_DISABLE && wanted->ss_size < LEAST_BYTES)
        return refuse(ENOMEM);
    // Whether it is set depends on where the thread is, which the kernel alone knows.
    if (flags & SS_AUTODISARM)
        give_up_stack(wanted);
    else
        believe(bounds_of(wanted));
    return 0;
}

INTERPOSED int sigaltstack(const stack_t *wanted, stack_t *before)
{
    if (!stack_of_handlers.high || agent_in_vfork_child())
        return (int)register_stack(wanted, before);
    const bool on_it = is_on(&stack_alternate, (uintptr_t)__builtin_frame_address(0));
    stack_t now = believed();
    now.ss_flags |= on_it ? SS_ONSTACK : 0;
    const int result = wanted ? change_stack(wanted, on_it) : 0;
    if (!result && before)
        *before = now;
    return result;
}

enum signal_stack_route signal_stack_lead(void *context, siginfo_t *info,
                                          const struct signal_delivery *delivery)
{
    const bool wants_alternate = delivery->flags & SA_ONSTACK;
    const struct unwind_bounds *alternate = &stack_alternate;
    const uintptr_t sp = *(uintptr_t *)((char *)context + arch_context_offset(ARCH_SP)),
                    below = sp - SIGNAL_FRAME_RED_ZONE;
    // Relaxed: the runtime's stacks come later than the runtime.
    if (!is_on(&stack_of_handlers, (uintptr_t)context) ||
        (!alternate->high && wants_alternate &&
         atomic_load_explicit(&signal_stack_is_shared, memory_order_relaxed)))
        return SIGNAL_STACK_NOT_OURS;
    const bool enters = wants_alternate && alternate->high && !is_on(alternate, below);
    const uintptr_t top = enters ? alternate->high : below;
    if ((enters || is_on(alternate, sp)) &&
        !is_on(alternate, signal_frame_place(context, info, top)))
        return SIGNAL_STACK_FULL;
    signal_frame_lead(context, info, top, delivery);
    return SIGNAL_STACK_LED;
}
