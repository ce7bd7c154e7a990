// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_INTERPOSED_H
#define CAIRN_AGENT_INTERPOSE_INTERPOSED_H

// Functions that are interposed by the dozen, with their real ones.
//
// INTERPOSED_FUNCTION(read, interposed_io); after the definition of read() makes it known. All of a
// group lie in one section, whose start and end the linker names: nobody keeps a list of them.

#include "base/likely.h"
#include <stdint.h>

struct interposed {
    const char *name;
    const void *ours;
    void *real;          // relaxed: two threads that race store the same address
    const char *version; // of the real one; NULL: the newest
};

// A group: the section's entries.
struct interposed_group {
    struct interposed *const *start, *const *end;
};

#define INTERPOSED_GROUP(group)                                                                    \
    ({                                                                                             \
        extern struct interposed *const __start_##group[] __attribute__((visibility("hidden")));   \
        extern struct interposed *const __stop_##group[] __attribute__((visibility("hidden")));    \
        (struct interposed_group){__start_##group, __stop_##group};                                \
    })

// Where ours are, whatever the program's own names lead to: programs that are not independent of
// their position have an entry of their PLT stand for a function.
#define INTERPOSED_FUNCTION_OF(name, group, of_version)                                            \
    extern __typeof__(name) our_##name                                                             \
        __attribute__((alias(#name), visibility("hidden"), copy(name)));                           \
    static struct interposed interposed_##name = {#name, our_##name, 0, of_version};               \
    static struct interposed *const entry_##name __attribute__((section(#group), used)) =          \
        &interposed_##name

#define INTERPOSED_FUNCTION(name, group) INTERPOSED_FUNCTION_OF(name, group, 0)

// Looks for the next definition in line. NULL: there is none.
void *interposed_look_up(struct interposed *function);

// Looks for all of them: handlers of signals may call, and must find them known.
void interposed_look_up_all(struct interposed_group group);

static inline void *interposed_real(struct interposed *function)
{
    void *real = __atomic_load_n(&function->real, __ATOMIC_RELAXED);
    return LIKELY(real != 0) ? real : interposed_look_up(function);
}

// The function behind ours, in a file that has its INTERPOSED_FUNCTION().
#define INTERPOSED_REAL(name) ((__typeof__(&name))interposed_real(&interposed_##name))

// Has trackers leave calls of ours as they are, and doubt who has called the real ones.
void interposed_tell_trackers(struct interposed_group group);

#endif
