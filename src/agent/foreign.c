// SPDX-License-Identifier: MIT
// Unwinders of the program (exceptions, backtrace()) ask the loader which table covers an address.
// For stubs of patched call sites the loader has no answer: these functions have. For all else they
// are the loader's own.
#include "agent/agent.h"
#include "agent/real.h"
#include "patch/frames.h"
#include <link.h>
#include <string.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

// We know our stubs, and want to hear of what the loader has.
static bool is_ours(const void *caller)
{
    return (const char *)caller >= __ehdr_start && (const char *)caller < etext;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// Our own signal handlers ask, too: what they get must not have to be looked up then.
__attribute__((constructor)) static void look_up(void)
{
    (void)REAL(_dl_find_object);
}

INTERPOSED int _dl_find_object(void *pc, struct dl_find_object *result)
{
    uintptr_t start, end;
    void *table;
    if (is_ours(__builtin_return_address(0)) || !frames_find((uintptr_t)pc, &start, &end, &table)) {
        int (*real)(void *, struct dl_find_object *) = REAL(_dl_find_object);
        return real ? real(pc, result) : -1;
    }
    memset(result, 0, sizeof *result);
    result->dlfo_map_start = (void *)start;
    result->dlfo_map_end = (void *)end;
    result->dlfo_eh_frame = table;
    return 0;
}
#endif

INTERPOSED int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *),
                               void *context)
{
    int result = REAL(dl_iterate_phdr)(callback, context);
    if (result || is_ours(__builtin_return_address(0)))
        return result;
    return frames_iterate(callback, context);
}
