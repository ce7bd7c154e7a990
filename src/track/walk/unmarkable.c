// SPDX-License-Identifier: MIT
#include "track/walk/unmarkable.h"
#include "base/gc_hidden.h"
#include "loadmap/lookup.h"
#include "patch/x86_64/return_load.h"
#include "track/walk/seen_unwinders.h"
#include "unwind/arch.h"
#include "unwind/shortcut.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

// Calls that must not be rewritten are another list: patch/functions/unpatchable.c.
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
_Static_assert(NAME_COUNT <= LOOKUP_MOST, "looked up at once");

// Written once before the first sample, then only read.
static struct {
    place_t functions[NAME_COUNT];
    place_t first_function, last_function; // of those: most others lie before or behind them
    unsigned agent_module, loader_module;
} looked_up;

// Found by whichever thread meets them.
#define UNWINDERS 8
static struct {
    // Modules whose own runtime looks up return addresses. Bits are only set; relaxed, as a frame
    // is walked after its module was found.
    _Atomic bool any_runtime;
    _Atomic uint64_t runtimes[(MODULE_LIMIT + 64) / 64];
    // A lost race is made good the next time. Relaxed: each is a number by itself.
    _Atomic unsigned unwinder_modules[UNWINDERS];
    _Atomic place_t unwinders[UNWINDERS];
} met GC_HIDDEN;
#define UNWINDER_REACH                                                                             \
    16384 // bytes around one function of a linked-in unwinder that hold all of it

// Functions that were examined, each with one bit more: it loads its own return address. A function
// that was displaced by another is examined again. Relaxed: a word is all there is.
#define EXAMINED 4096
// Of code, at most. The loops of interpreters are as large, and recursion goes through them: each
// is looked through once, which takes a tenth of a millisecond.
#define EXAMINED_BYTES (128 << 10)
static _Atomic uint64_t examined[EXAMINED] GC_HIDDEN;

void unmarkable_start(void)
{
    looked_up.agent_module = place_module(loadmap_place((uintptr_t)&unmarkable_start));
    uintptr_t loader = getauxval(AT_BASE);
    looked_up.loader_module = loader ? place_module(loadmap_place(loader)) : MODULE_NONE;
    // RTLD_NEXT: the real ones, not what the agent interposes.
    void *addresses[NAME_COUNT];
    lookup_symbols(RTLD_NEXT, names, addresses, NAME_COUNT);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        looked_up.functions[i] = addresses[i] ? loadmap_place((uintptr_t)addresses[i]) : 0;
        if (!looked_up.functions[i])
            continue;
        if (!looked_up.first_function || looked_up.functions[i] < looked_up.first_function)
            looked_up.first_function = looked_up.functions[i];
        if (looked_up.functions[i] > looked_up.last_function)
            looked_up.last_function = looked_up.functions[i];
    }
}

static void note_runtime(unsigned id)
{
    atomic_fetch_or_explicit(&met.runtimes[id / 64], UINT64_C(1) << id % 64, memory_order_relaxed);
    atomic_store_explicit(&met.any_runtime, true, memory_order_relaxed);
}

static bool has_runtime(unsigned id)
{
    return atomic_load_explicit(&met.any_runtime, memory_order_relaxed) &&
           atomic_load_explicit(&met.runtimes[id / 64], memory_order_relaxed) >> id % 64 & 1;
}

void unmarkable_note_module(const struct module_info *module)
{
    const unsigned id = module->id;
    if (module->runtime != RUNTIME_NONE)
        note_runtime(id);
    if (module->remembers)
        program_unwinder_expect_memory();
    if (!module->unwinds)
        return;
    for (size_t i = 0; i < UNWINDERS; i++) {
        unsigned known = atomic_load_explicit(&met.unwinder_modules[i], memory_order_relaxed);
        if (known == id)
            return;
        if (!known) {
            atomic_store_explicit(&met.unwinder_modules[i], id, memory_order_relaxed);
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
    // Both lists end where they are empty.
    for (size_t i = 0; i < UNWINDERS; i++) {
        const unsigned id = atomic_load_explicit(&met.unwinder_modules[i], memory_order_relaxed);
        if (!id)
            break;
        if (id == place_module(function))
            return true;
    }
    for (size_t i = 0; i < UNWINDERS; i++) {
        const place_t known = atomic_load_explicit(&met.unwinders[i], memory_order_relaxed);
        if (!known)
            break;
        if (is_near(known, function))
            return true;
    }
    return false;
}

void unmarkable_note_unwinder(place_t function)
{
    if (is_unwinder(function))
        return;
    for (size_t i = 0; i < UNWINDERS; i++)
        if (!atomic_load_explicit(&met.unwinders[i], memory_order_relaxed)) {
            atomic_store_explicit(&met.unwinders[i], function, memory_order_relaxed);
            return;
        }
}

bool unmarkable_is_agent(place_t function)
{
    return looked_up.agent_module && place_module(function) == looked_up.agent_module;
}

bool unmarkable_is(place_t function, place_t site)
{
    unsigned from = place_module(site), module = place_module(function);
    if (from == looked_up.agent_module || module == looked_up.agent_module ||
        from == looked_up.loader_module || module == looked_up.loader_module || has_runtime(from))
        return true;
    if (function >= looked_up.first_function && function <= looked_up.last_function)
        for (size_t i = 0; i < NAME_COUNT; i++)
            if (looked_up.functions[i] == function)
                return true;
    return is_unwinder(function);
}

static _Atomic uint64_t *examined_slot(place_t function)
{
    return &examined[function * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

void unmarkable_expect(place_t function)
{
    __builtin_prefetch(examined_slot(function));
}

// The function with its bit. Of the module's number one bit is lost.
static uint64_t examined_word(place_t function, bool loads)
{
    return function << 1 | loads;
}

static bool examine(place_t function, uintptr_t pc, const struct module_ref *module)
{
    if (module->id != place_module(function))
        return true;
    const bool loads = return_may_be_loaded(module, pc, EXAMINED_BYTES);
    atomic_store_explicit(examined_slot(function), examined_word(function, loads),
                          memory_order_relaxed);
    return loads;
}

// The stored word of a function: examined_word(), or that of another one.
static uint64_t known_word(place_t function)
{
    return atomic_load_explicit(examined_slot(function), memory_order_relaxed);
}

static bool is_examined(place_t function, uint64_t known)
{
    return known >> 1 == examined_word(function, false) >> 1;
}

bool unmarkable_by_code_that_stays(place_t function, uintptr_t pc)
{
    const uint64_t known = known_word(function);
    if (is_examined(function, known))
        return known & 1;
    const struct shortcut *shortcut = shortcut_at(pc);
    if (!shortcut)
        return true;
    const uint64_t flags = arch_begin_unaligned(); // tables are not aligned
    const bool forbidden = examine(function, pc, &shortcut->module);
    arch_restore_flags(flags);
    return forbidden;
}

bool unmarkable_by_code(place_t function, uintptr_t pc)
{
    const uint64_t known = known_word(function);
    if (is_examined(function, known))
        return known & 1;
    struct module_ref module;
    bool unloading;
    loadmap_enter();
    const bool forbidden = !loadmap_find(pc, &module, &unloading) || examine(function, pc, &module);
    loadmap_leave();
    return forbidden;
}
