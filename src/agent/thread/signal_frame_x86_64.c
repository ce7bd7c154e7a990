// SPDX-License-Identifier: MIT
//
//      top  ->  +--------------------------------------+
//               | vector registers and the like: state | aligned to 64; uc_mcontext.fpregs
//               +--------------------------------------+
//               | siginfo_t                            |
//               | ucontext_t, as the kernel has it     | ends with a mask of 8 bytes
//      sp   ->  | return address: rt_sigreturn         | aligned as after a call
//               +--------------------------------------+

#include "agent/thread/signal_frame.h"
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#define STATE_ALIGNMENT 64
#define OLD_STATE_BYTES 512 // without what came after SSE
#define STATE_HINT 464      // where it says how large it is
#define STATE_MAGIC 0x46505853u
#define FLAGS_CLEARED (INT64_C(0x100) | 0x400 | 0x10000) // single steps, direction, resume

struct parts {
    const char *head, *state;
    size_t head_bytes, state_bytes;
};

// The kernel's _fpx_sw_bytes, as far as it matters.
struct state_hint {
    uint32_t magic, bytes;
};

static struct parts parts_of(const ucontext_t *context, const siginfo_t *info)
{
    struct parts parts = {.head = (const char *)context - sizeof(uintptr_t),
                          .state = (const char *)context->uc_mcontext.fpregs};
    parts.head_bytes = (size_t)((const char *)(info + 1) - parts.head);
    if (!parts.state)
        return parts;
    struct state_hint hint;
    memcpy(&hint, parts.state + STATE_HINT, sizeof hint);
    parts.state_bytes = hint.magic == STATE_MAGIC ? hint.bytes : OLD_STATE_BYTES;
    return parts;
}

static uintptr_t place_state(const struct parts *parts, uintptr_t top)
{
    return (top - parts->state_bytes) & -(uintptr_t)STATE_ALIGNMENT;
}

static uintptr_t place_head(const struct parts *parts, uintptr_t state)
{
    return ((state - parts->head_bytes) & -(uintptr_t)16) - sizeof(uintptr_t);
}

uintptr_t signal_frame_place(const void *context, const siginfo_t *info, uintptr_t top)
{
    const struct parts parts = parts_of(context, info);
    return place_head(&parts, place_state(&parts, top));
}

void signal_frame_lead(void *context, siginfo_t *info, uintptr_t top,
                       const struct signal_delivery *delivery)
{
    ucontext_t *ours = context;
    const struct parts parts = parts_of(ours, info);
    const uintptr_t state = place_state(&parts, top), head = place_head(&parts, state);
    ucontext_t *copy = (ucontext_t *)(head + sizeof(uintptr_t));
    memcpy((void *)state, parts.state, parts.state_bytes);
    memcpy((void *)head, parts.head, parts.head_bytes);
    if (parts.state)
        copy->uc_mcontext.fpregs = (fpregset_t)state;
    greg_t *registers = ours->uc_mcontext.gregs;
    registers[REG_RIP] = (greg_t)delivery->handler;
    registers[REG_RSP] = (greg_t)head;
    registers[REG_RDI] = delivery->signal;
    registers[REG_RSI] = (greg_t)(head + (uintptr_t)((const char *)info - parts.head));
    registers[REG_RDX] = (greg_t)copy;
    registers[REG_RAX] = 0;
    registers[REG_EFL] &= ~FLAGS_CLEARED;
    ours->uc_mcontext.fpregs = NULL; // none: the handler begins with those of a new program
    memcpy(&ours->uc_sigmask, &delivery->blocked, sizeof delivery->blocked);
}
