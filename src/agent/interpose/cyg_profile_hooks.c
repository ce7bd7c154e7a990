// SPDX-License-Identifier: MIT
// The functions that programs built with -finstrument-functions call at the begin and the end of
// each function. These are ordinary calls, so only registers that calls preserve matter.

#include "agent/session/agent.h"
#include "track/calls/calls.h"

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

#define TOLD_CALL(function_address, call_site)                                                     \
    (&(struct cyg_call){                                                                           \
        .function = (uintptr_t)(function_address),                                                 \
        .site = (uintptr_t)(call_site),                                                            \
        .hook_site = (uintptr_t)__builtin_return_address(0),                                       \
        .level = (uintptr_t)__builtin_dwarf_cfa(),                                                 \
    })

INTERPOSED void __cyg_profile_func_enter(void *function, void *site)
{
    struct calls_thread *calls = calls_current;
    if (calls)
        calls_function_entered(calls, TOLD_CALL(function, site));
}

INTERPOSED void __cyg_profile_func_exit(void *function, void *site)
{
    struct calls_thread *calls = calls_current;
    if (calls)
        calls_function_left(calls, TOLD_CALL(function, site));
}
