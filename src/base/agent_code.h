// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_AGENT_CODE_H
#define CAIRN_BASE_AGENT_CODE_H

// Whether the calling thread runs code of the agent: a handler of ours, or an event that is being
// counted. The functions of libc that it calls may be patched, and these calls are not the
// program's.

#include <stdatomic.h>
#include <stdint.h>

// > 0 while it does. The thread itself writes and reads, its signal handlers too.
extern __thread uint32_t agent_code __attribute__((visibility("hidden")));

static inline void agent_code_begin(void)
{
    agent_code++;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void agent_code_end(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    agent_code--;
}

#endif
