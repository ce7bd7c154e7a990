// SPDX-License-Identifier: MIT
#include "symbol/kernel_names.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// By their numbers, made when cairn is built (scripts/system-call-names).
static const char *const call_names[] = {
#include "symbol/system_call_names.h"
};

// The prefixes in the names of the functions behind a system call, one calling the other.
static const char *const entries[] = {"__x64_sys_", "__se_sys_", "__do_sys_"};

static int by_begin(const void *left, const void *right)
{
    const struct profile_function *a = *(const struct profile_function *const *)left;
    const struct profile_function *b = *(const struct profile_function *const *)right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a > b) - (a < b); // in the order of the recording
}

void kernel_names_open(struct kernel_names *names, const struct profile *profile)
{
    names->count = profile->function_count;
    names->functions = memory_array(names->count + 1, sizeof *names->functions);
    for (size_t i = 0; i < names->count; i++)
        names->functions[i] = &profile->functions[i];
    qsort(names->functions, names->count, sizeof *names->functions, by_begin);
}

void kernel_names_close(struct kernel_names *names)
{
    free(names->functions);
}

// The last one that begins at the place or before, and reaches it.
static const struct profile_function *find(const struct kernel_names *names, place_t place)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (names->functions[middle]->begin <= place)
            low = middle + 1;
        else
            high = middle;
    }
    const struct profile_function *found = low ? names->functions[low - 1] : NULL;
    return found && place - found->begin < found->bytes ? found : NULL;
}

static const char *call_name(struct text_pool *pool, uint64_t number)
{
    const size_t count = sizeof call_names / sizeof *call_names;
    const char *name = number < count ? call_names[number] : NULL;
    return name ? pool_format(pool, "sys_%s", name)
                : pool_format(pool, "sys_%llu", (unsigned long long)number);
}

const char *kernel_name(const struct kernel_names *names, struct text_pool *pool, place_t place,
                        place_t *begin)
{
    const uint64_t offset = place_offset(place);
    *begin = place;
    if (offset < PLACE_CALLS)
        return offset ? call_name(pool, offset - 1) : "system call";
    const struct profile_function *function = find(names, place);
    if (!function)
        return PLACE_KERNEL;
    *begin = function->begin;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strncmp(function->name, entries[i], strlen(entries[i])) == 0)
            return pool_format(pool, "sys_%s", function->name + strlen(entries[i]));
    return function->name;
}
