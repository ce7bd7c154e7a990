// SPDX-License-Identifier: MIT
#include "agent/interpose/interposed.h"
#include "track/tracker.h"
#include <dlfcn.h>

void *interposed_look_up(struct interposed *function)
{
    void *real = function->version ? dlvsym(RTLD_NEXT, function->name, function->version) : NULL;
    if (!real)
        real = dlsym(RTLD_NEXT, function->name);
    __atomic_store_n(&function->real, real, __ATOMIC_RELAXED);
    return real;
}

void interposed_look_up_all(struct interposed_group group)
{
    for (struct interposed *const *entry = group.start; entry < group.end; entry++)
        interposed_look_up(*entry);
}

void interposed_tell_trackers(struct interposed_group group)
{
    for (struct interposed *const *entry = group.start; entry < group.end; entry++) {
        const uintptr_t ours = (uintptr_t)(*entry)->ours, real = (uintptr_t)(*entry)->real;
        trackers_leave_calls(&ours, 1);
        if (real)
            trackers_doubt_functions(&real, 1);
    }
}
