// SPDX-License-Identifier: MIT
#include "track/forbidden.h"
#include "loadmap/loadmap.h"
#include <dlfcn.h>
#include <stddef.h>
#include <sys/auxv.h>

static const char *const names[] = {
    // keep their return address and come back to it a second time
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "sigsetjmp",
    "vfork",
    "__vfork",
    "getcontext",
    "swapcontext",
    "setcontext",
    "makecontext",
    "clone",
    "__clone",
    // ask who their caller is
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "dlclose",
    "dlerror",
    "mcount",
    "_mcount",
    "__fentry__",
    "__morestack",
};

#define NAME_COUNT (sizeof names / sizeof *names)

// Written once before the first sample, then only read.
static place_t functions[NAME_COUNT];
static unsigned agent_module, loader_module;

static place_t place_of(uintptr_t address)
{
    struct module_ref module;
    bool unloading = false;
    loadmap_enter();
    bool found = loadmap_find(address, &module, &unloading);
    loadmap_leave();
    return found ? place_make(module.id, address - module.base) : 0;
}

void forbidden_start(void)
{
    agent_module = place_module(place_of((uintptr_t)&forbidden_start));
    uintptr_t loader = getauxval(AT_BASE);
    loader_module = loader ? place_module(place_of(loader)) : MODULE_NONE;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        // RTLD_NEXT: the real ones, not what the agent interposes.
        void *address = dlsym(RTLD_NEXT, names[i]);
        functions[i] = address ? place_of((uintptr_t)address) : 0;
    }
}

bool forbidden_is_agent(place_t function)
{
    return agent_module && place_module(function) == agent_module;
}

bool forbidden_to_mark(place_t function, place_t site)
{
    unsigned from = place_module(site), module = place_module(function);
    if (from == agent_module || module == agent_module || from == loader_module ||
        module == loader_module)
        return true;
    for (size_t i = 0; i < NAME_COUNT; i++)
        if (functions[i] == function)
            return true;
    return false;
}
