// SPDX-License-Identifier: MIT
#include "loadmap/loadmap.h"
#include "base/gc_hidden.h"
#include "base/lock.h"
#include "base/now.h"
#include "base/system/signal_mask.h"
#include "loadmap/gate.h"
#include "loadmap/gomodules.h"
#include "loadmap/identity.h"
#include "loadmap/image.h"
#include "loadmap/maps.h"
#include "loadmap/pages.h"
#include "loadmap/table.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Atomic uint32_t loadmap_generation_count = 1;
_Atomic uint32_t loadmap_questions;

static void (*announce)(const struct module_info *module);
static uint32_t resync_count;
static bool started;

// Waited for in normal context, only tried for a while in a handler, and at once given up there if
// the holder is the very thread that was interrupted. Guards identities, scratch, and the writing
// of the table.
static struct lock lock;

// Too large for the stack of a handler. Under the lock.
static struct {
    struct maps_reader maps;
    struct image image;
    char path[PATH_MAX];
} scratch GC_HIDDEN;

// Reading /proc/self/maps costs tens of microseconds and more. A thread in unknown generated code
// may ask at each sample, so the file is read only if the last time was long ago compared to the
// cost.
static _Atomic uint64_t maps_not_before;
#define MAPS_PAUSE_LEAST 10000000 // ns
#define MAPS_PAUSE_TIMES 100

static bool try_lock(unsigned tries)
{
    for (unsigned i = 0; i < tries; i++) {
        if (lock_try(&lock))
            return true;
        if (lock_is_mine(&lock))
            return false;
    }
    return false;
}

bool loadmap_readable(uintptr_t address)
{
    // The kernel copies the new mask in before it looks at `how`, and refuses this `how`: EFAULT if
    // it could not be read, else EINVAL. Allowed in every sandbox.
    return signal_mask_change(~0, (const void *)address, NULL) == -EINVAL;
}

static void announce_module(const struct image *image, unsigned id, const char *path)
{
    struct module_info info = {
        .id = id,
        .path = path,
        .base = image->ref.base,
        .bytes = image->ref.end - image->ref.start,
        .runtime = image->ref.runtime,
        .unwinds = image->ref.unwinds,
        .remembers = image->ref.remembers,
        .build_id_bytes = image->build_id_bytes,
        .build_id = image->build_id,
    };
    if (announce)
        announce(&info);
}

// Under the lock. The name is the loader's; it shows later whether this is still the same library;
// NULL if it is not the loader's.
static void add_module(struct image *image, const char *path, const char *name)
{
    bool moved = false;
    unsigned id = MODULE_VDSO;
    if (strcmp(path, "[vdso]") == 0)
        moved = true;
    else
        id = identity_id(identity_of(path, image), image->ref.base, &moved);
    if (id == 0) { // unwound all the same, but nameless
        id = MODULE_ANONYMOUS;
        image->ref.base = 0;
    } else if (moved) {
        announce_module(image, id, path);
    }
    image->ref.id = id;
    image->ref.permanent = !started;
    struct table_module module = {
        .ref = image->ref,
        .object = identity_of(name ? name : path, image),
        .name = identity_of_name(name ? name : path),
        .seen = resync_count,
        .from_loader = name != NULL,
    };
    table_insert(&module);
}

// The path that an absolute name is; any other name (the main program's is empty, a plugin's may be
// relative to a directory that is no longer the current one) is looked up by address. All of
// /proc/self/maps is read only if the first mapping is not what the headers say: that may take
// milliseconds, in a handler. Under the lock.
static const char *path_of(const char *name, const struct image *image)
{
    if (name[0] == '/' && strlen(name) < PATH_MAX)
        return strcpy(scratch.path, name);
    // Unless the loader was run as a program, which then runs another.
    if (name[0] == 0 && getauxval(AT_BASE) && maps_read_link("/proc/self/exe", scratch.path))
        return scratch.path;
    if (maps_read_path(image->ref.start, image->first_end, scratch.path))
        return scratch.path;
    if (maps_read(&scratch.maps, image->ref.start) && scratch.maps.path[0])
        return scratch.maps.path;
    if (name[0] == 0 && maps_read_link("/proc/self/exe", scratch.path))
        return scratch.path;
    return strncpy(scratch.path, name[0] ? name : "[main]", sizeof scratch.path - 1);
}

// (A test has it otherwise, to try what older C libraries get.)
#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !defined(LOADMAP_WITHOUT_FIND_OBJECT)
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static bool ask_loader(uintptr_t pc, struct dl_find_object *object)
{
    return _dl_find_object && _dl_find_object((void *)pc, object) == 0;
}

static bool loader_can_be_asked(void)
{
    return _dl_find_object != NULL;
}

// Has nothing there, which is cheap to ask.
static bool loader_denies(uintptr_t pc)
{
    struct dl_find_object object;
    return _dl_find_object && _dl_find_object((void *)pc, &object) != 0;
}

static const char *object_name(const struct dl_find_object *object)
{
    const char *name = object->dlfo_link_map ? object->dlfo_link_map->l_name : NULL;
    return name ? name : "";
}

// Without reading the image: for one that has no headers in memory that can be relied on.
static void image_from_object(struct image *image, const struct dl_find_object *object)
{
    memset(image, 0, sizeof *image);
    image->ref.base = image->ref.start = (uintptr_t)object->dlfo_map_start;
    image->ref.end = (uintptr_t)object->dlfo_map_end;
    image->ref.eh_frame_hdr = object->dlfo_eh_frame;
    image->ref.code_start = image->ref.start;
    image->ref.code_end = image->ref.end;
    // Where its segments end is not known; the tables are read only as far as they are in their
    // page and those after it that can be read.
    image->ref.tables_start = (uintptr_t)object->dlfo_eh_frame;
    image->ref.tables_end = image->ref.tables_start;
    uintptr_t page = image->ref.tables_start & ~(uintptr_t)4095;
    while (page && page < image->ref.end && loadmap_readable(page))
        image->ref.tables_end = page += 4096;
}

static void describe_object(struct image *image, const struct dl_find_object *object)
{
    uintptr_t start = (uintptr_t)object->dlfo_map_start, end = (uintptr_t)object->dlfo_map_end;
    uintptr_t bias = object->dlfo_link_map ? object->dlfo_link_map->l_addr : 0;
    if (!image_from_memory(image, start, end, object->dlfo_link_map ? &bias : NULL) ||
        image->ref.eh_frame_hdr != object->dlfo_eh_frame)
        image_from_object(image, object);
}

// Still what the table says? A library may be gone without our knowing: libc unloads its own. The
// name counts: another one may have taken its place, at the very same addresses.
static bool is_current(const struct table_module *module)
{
    struct dl_find_object object;
    if (!loader_can_be_asked() || !module->from_loader)
        return true;
    return ask_loader(module->ref.start, &object) &&
           (uintptr_t)object.dlfo_map_start == module->ref.start &&
           identity_of_name(object_name(&object)) == module->name;
}

// A pc that is in no module of the table, or in one that is no more: ask the loader, remember the
// answer.
static bool add_from_loader(uintptr_t pc)
{
    struct dl_find_object object;
    if (!ask_loader(pc, &object) || !try_lock(10000))
        return false;
    describe_object(&scratch.image, &object);
    const char *name = object_name(&object);
    add_module(&scratch.image, path_of(name, &scratch.image), name);
    lock_release(&lock);
    return true;
}
#else
static bool loader_can_be_asked(void)
{
    return false;
}

static bool loader_denies(uintptr_t pc)
{
    (void)pc;
    return false;
}

static bool is_current(const struct table_module *module)
{
    (void)module;
    return true;
}

static bool add_from_loader(uintptr_t pc)
{
    (void)pc;
    return false;
}
#endif

static void add_mapped_file(const struct maps_reader *maps)
{
    struct image *image = &scratch.image;
    bool elf = image_from_memory(image, maps->start, maps->end, NULL);
    if (!elf || loader_can_be_asked()) {
        // Not the loader's: any code can unmap it at any time. So it has a name here, and offsets,
        // but reads of it must be fault-safe.
        memset(&image->ref, 0, sizeof image->ref);
        image->ref.start = maps->start;
        image->ref.base = maps->start - maps->offset;
        image->ref.end = maps->end;
        if (!elf)
            image->build_id_bytes = 0;
    }
    add_module(image, maps->path, NULL);
}

// Takes in what /proc/self/maps says about pc: a file that the loader does not know of, or code
// that was generated. Rarely.
static void add_from_maps(uintptr_t pc)
{
    const uint64_t begin = now_ns(CLOCK_MONOTONIC);
    if (begin < atomic_load(&maps_not_before) || !try_lock(1))
        return;
    // CPU time, since other programs may run on this processor meanwhile.
    const uint64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID);
    struct maps_reader *maps = &scratch.maps;
    if (maps_read(maps, pc)) {
        table_set_ranges(maps->range, maps->ranges);
        if (maps->path[0] && maps->executable)
            add_mapped_file(maps);
    }
    lock_release(&lock);
    const uint64_t pause = (now_ns(CLOCK_THREAD_CPUTIME_ID) - used) * MAPS_PAUSE_TIMES;
    atomic_store(&maps_not_before, begin + (pause > MAPS_PAUSE_LEAST ? pause : MAPS_PAUSE_LEAST));
}

// Takes a module out that is no longer there. True if it was not.
static bool drop_if_stale(const struct table_module *module)
{
    if (module->ref.permanent || is_current(module))
        return false;
    if (!try_lock(10000))
        return true;
    for (unsigned i = 0; i < table_count(); i++)
        if (table_at(i)->ref.start == module->ref.start && table_at(i)->object == module->object) {
            table_remove(i);
            atomic_fetch_add(&loadmap_generation_count, 1);
            break;
        }
    lock_release(&lock);
    return true;
}

static bool none(struct module_ref *module, enum page_kind kind)
{
    memset(module, 0, sizeof *module);
    if (kind == PAGE_GENERATED)
        module->id = MODULE_ANONYMOUS;
    return false;
}

static bool find(uintptr_t pc, struct module_ref *module, bool *unloading, bool rare)
{
    struct table_module found;
    int saved = errno;
    enum page_kind kind = pages_recall(pc);
    *unloading = false;
    if (kind != PAGE_UNKNOWN && (!rare || (kind == PAGE_GENERATED && loader_denies(pc))))
        return none(module, kind);
    bool known = table_find(pc, &found);
    // Generated code, as far as is known: no reason to ask the loader for each word of a stack.
    bool generated = !known && !rare && table_is_anonymous_code(pc);
    if (!generated && !(known && found.ref.permanent)) {
        *unloading = gate_is_closing() && (known || rare);
        if (!*unloading && (!known || drop_if_stale(&found)))
            known = add_from_loader(pc) && table_find(pc, &found);
        if (!*unloading && !known && rare && !table_is_anonymous_code(pc)) {
            add_from_maps(pc);
            known = table_find(pc, &found);
        }
    }
    errno = saved;
    if (known && !*unloading) {
        *module = found.ref;
        return true;
    }
    if (known)
        return none(module, PAGE_UNKNOWN);
    kind = generated || table_is_anonymous_code(pc) ? PAGE_GENERATED : PAGE_EMPTY;
    *unloading = *unloading && kind == PAGE_EMPTY;
    if (!*unloading)
        pages_remember(pc, kind);
    return none(module, kind);
}

bool loadmap_find(uintptr_t pc, struct module_ref *module, bool *unloading)
{
    return find(pc, module, unloading, true);
}

bool loadmap_is_generated(uintptr_t pc)
{
    return pages_recall(pc) == PAGE_GENERATED && loader_denies(pc);
}

bool loadmap_is_likely(uintptr_t address)
{
    return loadmap_may_be_code(address) || table_is_anonymous_code(address);
}

bool loadmap_peek(uintptr_t pc, struct module_ref *module)
{
    bool unloading;
    return find(pc, module, &unloading, false);
}

static int add_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    if (lock_take(&lock))
        return 0;
    image_from_headers(&scratch.image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    image_find_runtime(&scratch.image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    if (scratch.image.ref.runtime == RUNTIME_GO)
        gomodules_add(&scratch.image.ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    uintptr_t start = scratch.image.ref.start;
    if (start && start != vdso) {
        const char *name = info->dlpi_name ? info->dlpi_name : "";
        add_module(&scratch.image, path_of(name, &scratch.image), name);
    }
    lock_release(&lock);
    return 0;
}

static void add_vdso(void)
{
    uintptr_t start = getauxval(AT_SYSINFO_EHDR);
    if (lock_take(&lock))
        return;
    if (start && image_from_memory(&scratch.image, start, start + 64 * 4096, NULL))
        add_module(&scratch.image, "[vdso]", NULL);
    lock_release(&lock);
}

int loadmap_start(void (*found)(const struct module_info *module))
{
    if (started)
        return -EALREADY;
    int saved = errno;
    announce = found;
    add_vdso();
    dl_iterate_phdr(add_loaded, NULL);
    started = true;
    errno = saved;
    return table_count() ? 0 : -ENOENT;
}

// ---- after libraries have gone

// How many the loader has unloaded so far.
static int read_subs(struct dl_phdr_info *info, size_t size, void *context)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        *(uint64_t *)context = info->dlpi_subs;
    return 1;
}

// Where the loader can be asked about an address: of each module. Else it lists all, and those that
// it does not list are dropped.
static int mark_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    const uint32_t *number = context;
    struct image *image = &scratch.image;
    // Unmarked modules are dropped, and found again when they are met.
    if (lock_take(&lock))
        return 0;
    image_from_headers(image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    const unsigned index = table_index(image->ref.start);
    if (index < table_count() && table_at(index)->ref.start == image->ref.start &&
        table_at(index)->object == identity_of(info->dlpi_name ? info->dlpi_name : "", image) &&
        table_at(index)->seen < *number)
        table_mark_seen(index, *number);
    lock_release(&lock);
    return 0;
}

static bool is_gone(const struct table_module *module, uint32_t number)
{
    if (module->ref.permanent)
        return false;
    return loader_can_be_asked() ? !module->from_loader || !is_current(module)
                                 : module->seen < number;
}

// The loader's data about an object is freed when another thread unloads it. The loader does that
// under the lock that it holds while it calls back, so the first call back is the moment to ask.
static int drop_gone(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info, (void)size;
    const uint32_t number = *(const uint32_t *)context;
    bool dropped = false;
    if (lock_take(&lock))
        return 1;
    for (unsigned i = 0; i < table_count();) {
        if (is_gone(table_at(i), number)) {
            table_remove(i);
            dropped = true;
        } else {
            i++;
        }
    }
    if (dropped)
        atomic_fetch_add(&loadmap_generation_count, 1);
    lock_release(&lock);
    return 1;
}

void loadmap_after_unload(void)
{
    static _Atomic uint64_t subs_before = UINT64_MAX; // relaxed: at worst a look for nothing
    int saved = errno;
    uint64_t subs = UINT64_MAX;
    dl_iterate_phdr(read_subs, &subs);
    const bool changed =
        atomic_exchange_explicit(&subs_before, subs, memory_order_relaxed) != subs ||
        subs == UINT64_MAX;
    if (changed && !lock_take(&lock)) {
        uint32_t number = ++resync_count; // modules added from here on are new
        lock_release(&lock);
        // Not under our lock: the loader holds its own while it calls back, and a destructor that
        // unloads comes here with the loader's lock held.
        if (!loader_can_be_asked())
            dl_iterate_phdr(mark_loaded, &number);
        dl_iterate_phdr(drop_gone, &number);
    }
    gate_open();
    errno = saved;
}

void loadmap_after_fork(void)
{
    gate_after_fork();
    if (lock_break(&lock))
        table_repair();
}

place_t loadmap_place(uintptr_t address)
{
    struct module_ref module;
    bool unloading = false;
    loadmap_enter();
    bool found = loadmap_find(address, &module, &unloading);
    loadmap_leave();
    return found ? place_make(module.id, address - module.base)
                 : place_make(MODULE_ANONYMOUS, address);
}
