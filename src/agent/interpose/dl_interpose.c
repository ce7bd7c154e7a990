// SPDX-License-Identifier: MIT
// Unwinders of the program (exceptions, backtrace()) ask the loader which table covers an address.
// For stubs of patched call sites the loader has no answer: these functions have. For all else they
// are the loader's own.
#include "agent/interpose/dl_interpose.h"
#include "agent/session/agent.h"
#include "agent/session/real.h"
#include "patch/stubs/stub_cfi.h"
#include <link.h>
#include <string.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

// We know our stubs, and want to hear of what the loader has.
bool dl_interpose_is_ours(const void *address)
{
    return (const char *)address >= __ehdr_start && (const char *)address < etext;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
static __typeof__(&_dl_find_object) loaders_own(void)
{
    return REAL(_dl_find_object);
}

// Our own signal handlers ask, too, and may not look it up: so before there are any.
__attribute__((constructor(101))) static void look_up(void)
{
    loaders_own();
}

INTERPOSED int _dl_find_object(void *pc, struct dl_find_object *result)
{
    uintptr_t start, end;
    void *table;
    const bool ours = dl_interpose_is_ours(__builtin_return_address(0));
    if (!ours)
        stub_cfi_search((uintptr_t)pc, __builtin_frame_address(0));
    if (ours || !stub_cfi_find((uintptr_t)pc, &start, &end, &table)) {
        __typeof__(&_dl_find_object) real = loaders_own();
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
    const bool ours = dl_interpose_is_ours(__builtin_return_address(0));
    if (!ours)
        stub_cfi_search(0, __builtin_frame_address(0));
    int result = REAL(dl_iterate_phdr)(callback, context);
    if (result || ours)
        return result;
    return stub_cfi_iterate(callback, context);
}
