// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_SIGNAL_STACK_H
#define CAIRN_AGENT_THREAD_SIGNAL_STACK_H

// The stack that samples are taken on.
//
// A program's stack need not have the room for a sample: neither a coroutine's of a page, nor an
// alternate stack that was made for one handler. So each thread has an alternate stack of ours, and
// the kernel enters our handlers there, whatever they interrupt. The program sees its own alternate
// stack, or none. Its handlers that want one are entered on ours, too, with all signals blocked,
// and led from there to the stack that they would run on without cairn:
//
//      the kernel                       the program's alternate stack, or the stack interrupted
//          |                                ^
//          v        copy of the frame       |   the handler, as if entered by the kernel:
//      our stack ---------------------------+   it returns through its own copy
//                  rt_sigreturn "into" it
//
// Nothing of the program runs on our stack, and nothing stays there. Go is the exception: its
// runtime asks the kernel itself for the alternate stack of a thread, and takes the one that there
// is. Its handlers are not led anywhere, nor are those of C code in the same process that has set
// no stack: to Go's runtime, a stack of Go's is no place for them.

#include "agent/thread/thread.h"
#include <signal.h>

// Gives the calling thread its stack. Without one (no memory, a return stack that the processor
// protects, a thread that is on an alternate stack already) its samples are taken where the kernel
// leads them.
void signal_stack_open(struct thread *thread);

// The thread ends: the kernel gets to know the program's own stack again.
void signal_stack_close(struct thread *thread);

// There is such a runtime in the process. Set once, by the thread that finds it.
extern _Atomic bool signal_stack_is_shared;

// The program may not register stacks any more (seccomp): the present one stays.
extern bool signal_stack_forbidden;

enum signal_stack_route {
    SIGNAL_STACK_NOT_OURS, // the frame lies where the handler belongs
    SIGNAL_STACK_LED,      // returning from the signal enters the handler
    SIGNAL_STACK_FULL,     // there is no room for it: the kernel would end the program
};

// A signal that was entered on our stack is for a handler of the program. Signal-safe.
struct signal_delivery;
enum signal_stack_route signal_stack_lead(void *context, siginfo_t *info,
                                          const struct signal_delivery *delivery);

#endif
