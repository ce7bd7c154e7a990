// SPDX-License-Identifier: MIT
#include "loadmap/lookup.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include <dlfcn.h>

struct lookup_search {
    const char *const *names;
    unsigned count;
    bool beyond_us; // RTLD_NEXT
    uint64_t found; // by bits: names that a module has, or may have
};

static bool read_symbols(const struct dl_phdr_info *info, struct dynamic *dynamic)
{
    struct image image;
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    return dynamic_read(dynamic, &image.ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
}

static void look_into(const struct dynamic *dynamic, struct lookup_search *search)
{
    for (unsigned i = 0; i < search->count; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        // Without a table of a known kind, the answer is not known.
        if (!(search->found & bit) &&
            (!dynamic->hash || dynamic_exports(dynamic, search->names[i])))
            search->found |= bit;
    }
}

static int look_into_module(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct lookup_search *search = data;
    struct dynamic dynamic;
    if (read_symbols(info, &dynamic) &&
        !(search->beyond_us && dynamic_holds(&dynamic, (uintptr_t)lookup_symbol, 1)))
        look_into(&dynamic, search);
    return 0;
}

// The first one is the executable.
static int look_into_first(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct lookup_search *search = data;
    struct dynamic dynamic;
    if (read_symbols(info, &dynamic) && dynamic.hash)
        look_into(&dynamic, search);
    return 1;
}

bool lookup_in_executable(const char *name)
{
    struct lookup_search search = {.names = &name, .count = 1};
    dl_iterate_phdr(look_into_first, &search);
    return search.found != 0;
}

void lookup_symbols(void *handle, const char *const *names, void **found, unsigned count)
{
    struct lookup_search search = {
        .names = names, .count = count, .beyond_us = handle == RTLD_NEXT};
    bool any_missed = false;
    dl_iterate_phdr(look_into_module, &search);
    for (unsigned i = 0; i < count; i++) {
        found[i] = search.found >> i & 1 ? dlsym(handle, names[i]) : NULL;
        any_missed |= search.found >> i & 1 && !found[i];
    }
    // Not for the program to hear of. Each is reported once.
    if (any_missed) {
        dlerror();
        dlerror();
    }
}

void *lookup_symbol(void *handle, const char *name)
{
    void *found;
    lookup_symbols(handle, &name, &found, 1);
    return found;
}
