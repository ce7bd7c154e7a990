// SPDX-License-Identifier: MIT
#include "loadmap/lookup.h"
#include "loadmap/dynamic.h"
#include <dlfcn.h>

struct search {
    const char *name;
    bool beyond_us; // RTLD_NEXT
    bool found;     // in the executable
};

static struct module_ref extent_of(const struct dl_phdr_info *info)
{
    struct module_ref ref = {.start = UINTPTR_MAX};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
        if (header->p_type != PT_LOAD)
            continue;
        ref.start = start < ref.start ? start : ref.start;
        ref.end = end > ref.end ? end : ref.end;
    }
    return ref;
}

static int may_have(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const struct search *search = data;
    const struct module_ref ref = extent_of(info);
    const uintptr_t here = (uintptr_t)lookup_symbol;
    struct dynamic dynamic;
    if ((search->beyond_us && here >= ref.start && here < ref.end) ||
        !dynamic_read(&dynamic, &ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum))
        return 0;
    // Without a table of the kind that is known here, nobody can say.
    return !dynamic.hash || dynamic_exports(&dynamic, search->name);
}

// The first one that is told of is the executable.
static int first_has(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    const struct module_ref ref = extent_of(info);
    struct dynamic dynamic;
    search->found =
        dynamic_read(&dynamic, &ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum) &&
        dynamic_exports(&dynamic, search->name);
    return 1;
}

bool lookup_in_executable(const char *name)
{
    struct search search = {.name = name};
    dl_iterate_phdr(first_has, &search);
    return search.found;
}

void *lookup_symbol(void *handle, const char *name)
{
    struct search search = {.name = name, .beyond_us = handle == RTLD_NEXT};
    return dl_iterate_phdr(may_have, &search) ? dlsym(handle, name) : NULL;
}
