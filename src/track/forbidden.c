// SPDX-License-Identifier: MIT
#include "track/forbidden.h"
#include "loadmap/loadmap.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
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

// Added to as they are met, by whichever thread; a lost race is made good the next time. Relaxed:
// each is a number by itself.
#define UNWINDERS 8
static _Atomic unsigned unwinder_modules[UNWINDERS];
static _Atomic place_t unwinders[UNWINDERS];
#define UNWINDER_REACH                                                                             \
    16384 // bytes around one function of a linked-in unwinder that hold all of it

void forbidden_start(void)
{
    agent_module = place_module(loadmap_place((uintptr_t)&forbidden_start));
    uintptr_t loader = getauxval(AT_BASE);
    loader_module = loader ? place_module(loadmap_place(loader)) : MODULE_NONE;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        // RTLD_NEXT: the real ones, not what the agent interposes.
        void *address = dlsym(RTLD_NEXT, names[i]);
        functions[i] = address ? loadmap_place((uintptr_t)address) : 0;
    }
}

void forbidden_note_module(unsigned id, const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strncmp(name, "libgcc_s.so", 11) && strncmp(name, "libunwind", 9))
        return;
    for (size_t i = 0; i < UNWINDERS; i++) {
        unsigned known = atomic_load_explicit(&unwinder_modules[i], memory_order_relaxed);
        if (known == id)
            return;
        if (!known) {
            atomic_store_explicit(&unwinder_modules[i], id, memory_order_relaxed);
            return;
        }
    }
}

static bool is_near(place_t a, place_t b)
{
    return (a > b ? a - b : b - a) < UNWINDER_REACH;
}

static bool is_unwinder(place_t function)
{
    for (size_t i = 0; i < UNWINDERS; i++) {
        if (atomic_load_explicit(&unwinder_modules[i], memory_order_relaxed) ==
            place_module(function))
            return true;
        place_t known = atomic_load_explicit(&unwinders[i], memory_order_relaxed);
        if (known && is_near(known, function))
            return true;
    }
    return false;
}

void forbidden_note_unwinder(place_t function)
{
    if (is_unwinder(function))
        return;
    for (size_t i = 0; i < UNWINDERS; i++)
        if (!atomic_load_explicit(&unwinders[i], memory_order_relaxed)) {
            atomic_store_explicit(&unwinders[i], function, memory_order_relaxed);
            return;
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
    return is_unwinder(function);
}
