// SPDX-License-Identifier: MIT
// The calling context as a value, and as text.

#include "agent/api/api.h"
#include "encode/codebook/context_text.h"
#include "track/encode/contexts/requested_context.h"

struct context_id thread_context(const struct caller_registers *caller); // see thread.h

__attribute__((noinline)) static struct cairn_context ask(const void *frame)
{
    if (!agent.active)
        return (struct cairn_context){0, 0};
    atomic_store_explicit(&agent.process->contexts.asked, 1, memory_order_relaxed);
    const struct caller_registers caller = unwind_caller_of(frame);
    const struct context_id value = thread_context(&caller);
    return (struct cairn_context){value.id, value.handle};
}

API struct cairn_context cairn_context_1(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    const uintptr_t pc = frame[1], sp = (uintptr_t)(frame + 2);
    const struct context_id value = encode_requested(pc, sp);
    if (__builtin_expect(!value.handle, 0))
        return ask(frame);
    return (struct cairn_context){value.id, value.handle};
}

API const char *cairn_context_text_1(struct cairn_context context, char *text, size_t bytes)
{
    struct context_text value = {.id = context.id, .handle = agent.active ? context.handle : 0};
    if (value.handle)
        value.process = live_process_key(agent.process->pid, agent.process->start_ns);
    context_text_format(&value, text, bytes);
    return text;
}

// Before any code is patched: calls of these change nothing.
__attribute__((constructor(102))) static void leave_alone(void)
{
    const void *const functions[] = {(void *)cairn_context_1, (void *)cairn_context_text_1};
    context_id_leave_alone(functions, sizeof functions / sizeof *functions);
}
