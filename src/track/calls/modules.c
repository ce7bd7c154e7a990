// SPDX-License-Identifier: MIT
// The modules of a program that is followed by its call sites, and what hooks and walks ask of
// them.

#include "track/calls/modules.h"
#include "base/gc_hidden.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include "loadmap/loadmap.h"
#include "loadmap/lookup.h"
#include "patch/detour.h"
#include "patch/functions/dl_notify.h"
#include "patch/functions/functions.h"
#include "patch/transaction.h"
#include <dlfcn.h>
#include <sys/auxv.h>

struct calls_modules calls_modules GC_HIDDEN;

// libc with all its parts: their inner calls are not counted by default. Where libc has no versions
// (musl), it is the loader.
static bool is_libc(const struct dl_phdr_info *info)
{
    struct image image;
    struct dynamic dynamic;
    if (info->dlpi_addr == getauxval(AT_BASE))
        return true;
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    return dynamic_read(&dynamic, &image.ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum) &&
           dynamic_is_libc(&dynamic);
}

static enum part part_of(const struct dl_phdr_info *info)
{
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    if (!*path) // the program, which the loader lists first and without a name
        return PART_FOLLOWED;
    if (calls_modules.by == LIVE_BY_ALL)
        return PART_FOLLOWED;
    return calls_modules.by == LIVE_BY_LIBRARIES && !is_libc(info) ? PART_FOLLOWED : PART_CALLBACKS;
}

struct follow_module *calls_module_at(uintptr_t address)
{
    const unsigned page = calls_pages_at(address) & ~CALLS_PAGE_FOLLOWED;
    struct follow_module *module = page ? &calls_modules.module[page - 1] : NULL;
    return module && atomic_load_explicit(&module->here, memory_order_acquire) &&
                   address >= module->start && address < module->end
               ? module
               : NULL;
}

calls_page_t calls_module_page(const struct follow_module *module)
{
    const calls_page_t number = (calls_page_t)(module - calls_modules.module + 1);
    return module->part == PART_FOLLOWED ? number | CALLS_PAGE_FOLLOWED : number;
}

bool calls_module_is_followed(uintptr_t address)
{
    const struct follow_module *module = calls_module_at(address);
    return module && module->part == PART_FOLLOWED;
}

static bool code_of(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end)
{
    *start = UINTPTR_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        const uintptr_t low = info->dlpi_addr + segment->p_vaddr;
        *start = low < *start ? low : *start;
        *end = low + segment->p_memsz > *end ? low + segment->p_memsz : *end;
    }
    return *start < *end;
}

static const Elf64_Dyn *dynamic_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

static bool has_text_relocations(const Elf64_Dyn *entry)
{
    for (; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_TEXTREL ||
            (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
            return true;
    return false;
}

// A place for a module: that of one that has gone, or a new one.
static struct follow_module *free_place(void)
{
    const unsigned count = atomic_load_explicit(&calls_modules.count, memory_order_relaxed);
    for (unsigned i = 0; i < count && calls_modules.dropped; i++)
        if (!atomic_load_explicit(&calls_modules.module[i].here, memory_order_relaxed)) {
            calls_modules.dropped--;
            return &calls_modules.module[i];
        }
    if (count == CALLS_MODULES)
        return NULL;
    atomic_store_explicit(&calls_modules.count, count + 1, memory_order_release);
    return &calls_modules.module[count];
}

// The dynamic section, too: by that the loader's list is compared with ours.
static void put_pages(const struct follow_module *module, calls_page_t page)
{
    calls_pages_put(module->dynamic, module->dynamic + 1, page);
    calls_pages_put(module->start, module->end, page);
}

// Adds the module if it is new.
static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uintptr_t start, end;
    struct follow_module *module;
    const Elf64_Dyn *dynamic = dynamic_of(info);
    if (!dynamic || !code_of(info, &start, &end) || calls_module_at(start) ||
        has_text_relocations(dynamic) || !(module = free_place()))
        return 0;
    module->start = start;
    module->end = end;
    module->dynamic = (uintptr_t)dynamic;
    module->part = part_of(info);
    module->patched = false;
    const unsigned number = (unsigned)(module - calls_modules.module);
    atomic_store_explicit(&module->here, true, memory_order_release);
    put_pages(module, calls_module_page(module));
    if (number < calls_modules.first_pending)
        calls_modules.first_pending = number;
    atomic_store_explicit(&calls_modules.pending, true, memory_order_relaxed);
    return 0;
}

static void drop_module(struct follow_module *module)
{
    put_pages(module, 0);
    calls_modules.dropped++;
    atomic_store_explicit(&module->here, false, memory_order_release);
    atomic_store_explicit(&module->count, 0, memory_order_relaxed);
    // The list of its functions stays, for the next one: another thread may be reading it.
    if (module->patched && !patch_begin()) {
        sites_forget(module->start, module->end);
        patch_end();
    }
}

void calls_modules_add(void)
{
    dl_iterate_phdr(add_module, NULL);
}

void calls_modules_add_new(void)
{
    dl_each_new(add_module, NULL);
}

void calls_modules_drop(void)
{
    static unsigned look;
    const unsigned count = atomic_load_explicit(&calls_modules.count, memory_order_relaxed);
    look++;
    for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        const unsigned page = calls_pages_at((uintptr_t)map->l_ld) & ~CALLS_PAGE_FOLLOWED;
        if (page && calls_modules.module[page - 1].dynamic == (uintptr_t)map->l_ld)
            calls_modules.module[page - 1].seen = look;
    }
    for (unsigned i = 0; i < count; i++)
        if (atomic_load_explicit(&calls_modules.module[i].here, memory_order_relaxed) &&
            calls_modules.module[i].seen != look)
            drop_module(&calls_modules.module[i]);
}

// ---- functions that we interpose

#define INTERPOSED_MOST 128
static struct {
    uintptr_t ours, real;
} interposed[INTERPOSED_MOST];
static _Atomic unsigned interposed_count; // release, when it is whole

static uintptr_t known_real(uintptr_t function)
{
    const unsigned count = atomic_load_explicit(&interposed_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (interposed[i].ours == function)
            return interposed[i].real;
    return 0;
}

// The function that the program means when it calls one of ours; the loader is asked at start
// alone.
uintptr_t calls_real_function(uintptr_t function)
{
    const uintptr_t known = known_real(function);
    Dl_info info;
    if (known || calls_modules.started ||
        calls_module_at(function) != calls_module_at((uintptr_t)&calls_sites_start) ||
        !dladdr((void *)function, &info) || !info.dli_sname ||
        (uintptr_t)info.dli_saddr != function)
        return known ? known : function;
    const uintptr_t real = (uintptr_t)lookup_symbol(RTLD_NEXT, info.dli_sname);
    const unsigned count = atomic_load_explicit(&interposed_count, memory_order_relaxed);
    if (!real || real == function || count == INTERPOSED_MOST)
        return function;
    interposed[count].ours = function;
    interposed[count].real = real;
    atomic_store_explicit(&interposed_count, count + 1, memory_order_release);
    return real;
}

// ---- what hooks and walks ask

// Pointers to functions of libraries may be those of PLT entries.
static uintptr_t behind_plt(uintptr_t function)
{
    uintptr_t target = 0;
    if (patch_begin())
        return function;
    const struct patch_module *module = functions_module(function);
    const uintptr_t slot = module ? functions_plt_slot(module, function) : 0;
    if (slot)
        target = functions_slot_target(slot);
    patch_end();
    return target ? target : function;
}

static uintptr_t meant_by(uintptr_t target)
{
    const uintptr_t function = behind_plt(target), real = known_real(function);
    return real ? real : function;
}

struct site_call calls_sites_resolve(uintptr_t word, uintptr_t back)
{
    struct stub_place place;
    const uintptr_t function = detour_function(back);
    if (function)
        return (struct site_call){word, function};
    if (sites_locate(back, &place))
        return (struct site_call){place.site->address + place.site->length, meant_by(word)};
    return (struct site_call){word, meant_by(back)};
}

bool calls_sites_follows(uintptr_t function)
{
    const struct follow_module *module = calls_module_at(function);
    size_t low = 0, high = module ? atomic_load_explicit(&module->count, memory_order_acquire) : 0;
    if (!high)
        return false;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (module->functions[middle] <= function)
            low = middle;
        else
            high = middle;
    }
    return module->functions[low] == function;
}

// Where start routines of threads return to, in libc.
static _Atomic uintptr_t thread_return;

void calls_sites_note_root(uintptr_t return_address)
{
    atomic_store_explicit(&thread_return, return_address, memory_order_relaxed);
}

bool calls_sites_notices(uintptr_t return_address, uintptr_t function)
{
    if (return_address == atomic_load_explicit(&thread_return, memory_order_relaxed))
        return true;
    const struct follow_module *module = calls_module_at(return_address - 1);
    if (!module || (module->part != PART_FOLLOWED && !calls_module_is_followed(function)))
        return false;
    const struct site *site = sites_before(return_address);
    return (site && atomic_load_explicit(&site->stub, memory_order_relaxed)) ||
           detour_is_before(return_address);
}

bool calls_sites_are_ours(uintptr_t return_address)
{
    const struct follow_module *module = calls_module_at(return_address);
    return module && module == calls_module_at((uintptr_t)&calls_sites_start);
}

uintptr_t calls_sites_true(uintptr_t address)
{
    return calls_by_sites ? sites_true_pc(address) : address;
}
