// SPDX-License-Identifier: MIT
#include "loadmap/lookup.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include <dlfcn.h>

struct search {
    const char *name;
    bool beyond_us; // RTLD_NEXT
    bool found;     // in the executable
};

static bool read_symbols(const struct dl_phdr_info *info, struct dynamic *dynamic)
{
    struct image image;
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    return dynamic_read(dynamic, &image.ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
}

static int may_have(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const struct search *search = data;
    struct dynamic dynamic;
    if (!read_symbols(info, &dynamic) ||
        (search->beyond_us && dynamic_holds(&dynamic, (uintptr_t)lookup_symbol, 1)))
        return 0;
    // Without a table of the kind that is known here, nobody can say.
    return !dynamic.hash || dynamic_exports(&dynamic, search->name);
}

// The first one that is told of is the executable.
static int first_has(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    struct dynamic dynamic;
    search->found = read_symbols(info, &dynamic) && dynamic_exports(&dynamic, search->name);
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
    void *found = dl_iterate_phdr(may_have, &search) ? dlsym(handle, name) : NULL;
    // Not for the program to hear of. What is told once is forgotten.
    if (!found) {
        dlerror();
        dlerror();
    }
    return found;
}
