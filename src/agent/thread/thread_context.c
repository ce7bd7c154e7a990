// SPDX-License-Identifier: MIT
// The calling context of a thread: as a value, and when it creates another one.

#include "agent/thread/thread.h"
#include "track/context_id/thread_creation.h"
#include <errno.h>

struct context_id thread_context(const struct caller_registers *caller)
{
    const int saved_errno = errno;
    struct context_id value = {0};
    if (!agent.active || agent_in_vfork_child())
        return value;
    const struct thread *thread = thread_self;
    const struct context_place place = {
        .caller = *caller,
        .stack = thread ? thread->stack : (struct unwind_bounds){0},
    };
    value = context_id_here(&place);
    errno = saved_errno;
    return value;
}

uint32_t thread_creation(const struct caller_registers *caller)
{
    const int saved_errno = errno;
    if (!agent.active || agent_in_vfork_child())
        return 0;
    const struct thread *thread = thread_self;
    const uint32_t number = creation_note(&(struct creation_place){
        .caller = *caller,
        .stack = thread ? thread->stack : (struct unwind_bounds){0},
        .root = context_id_root(),
    });
    errno = saved_errno;
    return number;
}
