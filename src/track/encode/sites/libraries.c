// SPDX-License-Identifier: MIT
// Libraries that come and go, and the end of all encoding.
//
// The loader tells (patch/functions/dl_notify.h) before it unmaps libraries, but not which ones; and when it
// has. In between, the thread that unloads holds the lock: nobody else looks at code or rewrites
// it, and handlers find the gate of the load map closed. Nobody has a frame in a library that is
// unmapped, nor in a stub of it, which would return there.
//
//   forgotten:  its sites and their stubs; targets in it, that sites elsewhere have in their
//               chains: another library may be at the same address next
//   kept:       its functions and edges. Places are of files, so they are the same when it is
//               loaded again, anywhere; its functions are then met anew, and have their numbers
//
// Only libraries that the loader has told of are patched, but for those that are there from the
// start, which are never unloaded.

#include "track/encode/sites/libraries.h"
#include "base/gc_hidden.h"
#include "loadmap/loadmap.h"
#include "patch/functions/dl_notify.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/exceptions.h"
#include "track/encode/threads/hooks.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"
#include <errno.h>

// ---- libraries that were loaded later; under the lock

#define LIBRARIES_MOST 4096
static struct library {
    uintptr_t start, end, dynamic;
    bool gone;
} libraries[LIBRARIES_MOST] GC_HIDDEN; // in the loader's order, which is that of loading
static unsigned library_count;
static uintptr_t gone_start, gone_end; // of all that are gone: most code lies elsewhere

// The newest ones are asked for most.
static const struct library *library_at(uintptr_t address)
{
    for (unsigned i = library_count; i-- > 0;)
        if (address >= libraries[i].start && address < libraries[i].end)
            return &libraries[i];
    return NULL;
}

bool encode_is_watched(uintptr_t address)
{
    return library_at(address) != NULL;
}

static bool is_gone(uintptr_t address)
{
    if (address < gone_start || address >= gone_end)
        return false;
    const struct library *library = library_at(address);
    return library && library->gone;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *context)
{
    struct library library = {.start = UINTPTR_MAX};
    (void)size, (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &info->dlpi_phdr[i];
        const uintptr_t low = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC)
            library.dynamic = low;
        if (segment->p_type != PT_LOAD)
            continue;
        library.start = low < library.start ? low : library.start;
        library.end = low + segment->p_memsz > library.end ? low + segment->p_memsz : library.end;
    }
    if (library.dynamic && library.start < library.end && !library_at(library.start) &&
        library_count < LIBRARIES_MOST)
        libraries[library_count++] = library;
    return 0;
}

static const struct link_map *find_listed(const struct link_map *from,
                                          const struct library *library)
{
    while (from && (uintptr_t)from->l_ld != library->dynamic)
        from = from->l_next;
    return from;
}

// Which libraries the loader does not list any more. False: none.
static bool find_gone(void)
{
    const struct link_map *next = _r_debug.r_map;
    gone_start = UINTPTR_MAX;
    gone_end = 0;
    for (unsigned i = 0; i < library_count; i++) {
        struct library *library = &libraries[i];
        const struct link_map *map = find_listed(next, library);
        if (!map) // perhaps the order is another one
            map = find_listed(_r_debug.r_map, library);
        library->gone = !map;
        if (map) {
            next = map->l_next;
            continue;
        }
        gone_start = library->start < gone_start ? library->start : gone_start;
        gone_end = library->end > gone_end ? library->end : gone_end;
    }
    return gone_end != 0;
}

static void drop_gone(void)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < library_count; i++) {
        if (libraries[i].gone)
            sites_forget(libraries[i].start, libraries[i].end);
        else
            libraries[kept++] = libraries[i];
    }
    library_count = kept;
}

// ---- what is forgotten

static void forget_gone(void)
{
    struct encode_site *site;
    bool led = true;
    // Sites elsewhere: the hook meets what comes next, and is right in any encoding.
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (!site->site)
            continue;
        if (is_gone(site->site->address))
            encode_drop_site(i);
        else if (encode_drop_targets(site, is_gone) &&
                 atomic_load_explicit(&site->site->stub, memory_order_relaxed))
            led &= !patch_add(site->site, site->hook);
    }
    led &= !patch_commit(encode_threading());
    for (uint32_t f = 0; f < encode.graph.function_count; f++)
        if (is_gone(encode_function_of(f)->address))
            encode_forget_function(f);
    encode_forget_calls();
    drop_gone();
    // Relaxed: the loader orders this before any call of what is mapped there next.
    atomic_fetch_add_explicit(&encode.unloads, 1, memory_order_relaxed);
    if (!led)
        encode_invalidate();
}

static void forget_libraries(void)
{
    if (!find_gone())
        return;
    if (patch_begin()) { // nobody can know any more what is patched
        encode.stopped = true;
        return;
    }
    forget_gone();
    patch_end();
}

static void on_libraries_changed(enum dl_event event)
{
    static bool held; // between two events, under the loader's lock
    const int saved = errno;
    if (event != LOADER_REMOVED)
        held = encode_lock_for_libc();
    if (!held) // its holder is gone, or waits for the loader: nothing is patched any more
        encode.stopped = true;
    if (event == LOADER_ADDED && held)
        dl_each_new(add_library, NULL);
    if (event == LOADER_REMOVES)
        loadmap_before_unload();
    if (event == LOADER_REMOVED) {
        if (held)
            forget_libraries();
        loadmap_after_unload();
    }
    if (event != LOADER_REMOVES && held) {
        held = false;
        encode_unlock_for_libc();
    }
    errno = saved;
}

void encode_watch_loader(void)
{
    patch_watch_loader(on_libraries_changed); // without it, what comes later is outside
}

bool encode_hears_of_unloading(void)
{
    return encode.started && dl_is_watched();
}

// ---- the end

static void restore_sites(void)
{
    struct encode_site *site;
    // If it fails, the code is as it is; what its stubs do is right.
    if (patch_begin())
        return;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++)
        if (site->site && !encode_is_fixed(site) &&
            atomic_load_explicit(&site->site->stub, memory_order_relaxed))
            patch_add(site->site, NULL);
    patch_commit(encode_threading());
    patch_end();
}

void encode_stop(struct encode_thread *thread)
{
    if (encode.stopped || !encode_may_move(thread) || thread->obstacles & OBSTACLE_HOOK)
        return;
    encode.stopped = true;
    restore_sites();
    encode_move_returns(thread);
    encode_compute_state(thread, 0);
}
