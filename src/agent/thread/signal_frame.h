// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_SIGNAL_FRAME_H
#define CAIRN_AGENT_THREAD_SIGNAL_FRAME_H

// The kernel's frame on a stack when it enters a handler: all registers of the interrupted code,
// and the data of the signal. One file per processor. All of it is signal-safe.

#include <signal.h>
#include <stdint.h>

// Below the stack pointer, and still the interrupted function's.
#if defined(__x86_64__)
#define SIGNAL_FRAME_RED_ZONE 128
#else
#error "this processor needs its own signal_frame_<processor>.c"
#endif

// Where a copy of the frame that a handler was entered with would begin, below `top`.
uintptr_t signal_frame_place(const void *context, const siginfo_t *info, uintptr_t top);

// A signal on its way to a handler of the program.
struct signal_delivery {
    int signal;
    void *handler;
    int flags;        // that it was installed with
    uint64_t blocked; // signals, while it runs
};

// Makes that copy, and changes the frame itself: returning from the signal enters the handler
// there, as the kernel would.
void signal_frame_lead(void *context, siginfo_t *info, uintptr_t top,
                       const struct signal_delivery *delivery);

#endif
