// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_HOOKS_H
#define CAIRN_TRACK_ENCODE_THREADS_HOOKS_H

// Hooks, which stubs call, and the table by which they find the edge of a call (state_offsets.h).

#include "patch/sites.h"
#include "track/encode/threads/threads.h"

// For the stubs: before and behind calls, in assembler.
void encode_push_direct(void);
void encode_push_indirect(void);
void encode_before_table(void);
void encode_after_table(void);
void encode_before_direct(void);
void encode_before_indirect(void);
void encode_before_tail(void);
void encode_after(void);

// Forgets which edges calls take: their stubs or targets may be gone. Under the lock.
void encode_forget_calls(void);

// Calls work(with) on the stack that ends at `top`, a multiple of 16.
void encode_call_on(void *top, void (*work)(void *), void *with);

#endif
