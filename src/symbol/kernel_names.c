// SPDX-License-Identifier: MIT
#include "symbol/kernel_names.h"
#include "base/place.h"
#include <stddef.h>

// By their numbers, made when cairn is built (scripts/system-call-names).
static const char *const call_names[] = {
#include "symbol/system_call_names.h"
};

const char *kernel_name(struct pool *pool, uint64_t offset)
{
    const size_t count = sizeof call_names / sizeof *call_names;
    if (offset >= PLACE_CALLS)
        return PLACE_KERNEL;
    if (offset == 0)
        return "system call";
    const char *name = offset - 1 < count ? call_names[offset - 1] : NULL;
    return name ? pool_format(pool, "sys_%s", name)
                : pool_format(pool, "sys_%llu", (unsigned long long)offset - 1);
}
