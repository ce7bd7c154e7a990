// SPDX-License-Identifier: MIT
// The begin of the program's own code: its start-up code passes main() to libc, and so to the
// agent.

#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include "track/context_id/context_id.h"
#include <errno.h>

typedef int main_function(int, char **, char **);

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

// Ends in a jump, so no frame of ours stays on the stack.
INTERPOSED __attribute__((optimize("O2"))) int
__libc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                  void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    __typeof__(&__libc_start_main) real = REAL(__libc_start_main);
    context_id_begin_thread((uintptr_t)main);
    if (agent.active && thread_self) {
        const int saved_errno = errno;
        tracker_enter((uintptr_t)main, thread_self->stack);
        errno = saved_errno;
    }
    return real(main, argc, argv, init, fini, loader_fini, stack_end);
}
