// SPDX-License-Identifier: MIT
#include "track/calls_sites.h"
#include "loadmap/loadmap.h"
#include "patch/decode.h"
#include "patch/detour.h"
#include "patch/functions.h"
#include "patch/lock.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULES 512
#define STAYS_MOST 4096
#define CHANGES 512
#define FUNCTION_ALIGNMENT 16 // of compilers that split functions

enum part { PART_NONE, PART_CALLBACKS, PART_FOLLOWED };

struct follow_module {
    _Atomic bool here;    // release, when the bounds are right
    uintptr_t start, end; // of its code
    enum part part;
    bool patched;
    uintptr_t *functions; // where they begin, in order; NULL until it is patched
    _Atomic size_t count; // release
    size_t room;
};

// Changed under the loader's lock, or before there are threads; read anywhere.
static struct follow_module modules[MODULES];
static _Atomic unsigned module_count;

// For the hooks of callbacks: bounds of followed code, by module, up to zeroes.
__attribute__((visibility("hidden"))) uintptr_t calls_followed[MODULES + 1][2];

// Modules have come that the loader is not done with: they are patched at the next call that has to
// be looked at. Set under the loader's lock.
static _Atomic bool pending;

bool calls_by_sites;
static enum live_calls_by calls_by;
static struct live_encode *totals;

// In calls_x86_64.S.
void calls_enter(void);
void calls_enter_indirect(void);
void calls_callback(void);
void calls_callback_indirect(void);

// ---- modules

// libc with all that it is made of: their inner calls are nobody's business, mostly.
static bool is_libc(const char *path)
{
    static const char *const names[] = {"libc",         "libm",       "libmvec", "libpthread",
                                        "libdl",        "librt",      "libutil", "libresolv",
                                        "libnss_files", "libnss_dns", "ld"};
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    const size_t length = strcspn(name, ".-");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !memcmp(name, names[i], length) &&
            (strstr(name, ".so") || !strncmp(name, "ld", 2)))
            return true;
    return false;
}

static enum part part_of(const struct dl_phdr_info *info)
{
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    if (!*path) // the program, which the loader lists first and without a name
        return PART_FOLLOWED;
    if (calls_by == LIVE_CALLS_BY_ALL)
        return PART_FOLLOWED;
    return calls_by == LIVE_CALLS_BY_LIBRARIES && !is_libc(path) ? PART_FOLLOWED : PART_CALLBACKS;
}

static struct follow_module *module_at(uintptr_t address)
{
    const unsigned count = atomic_load_explicit(&module_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (atomic_load_explicit(&modules[i].here, memory_order_acquire) &&
            address >= modules[i].start && address < modules[i].end)
            return &modules[i];
    return NULL;
}

static bool is_followed_code(uintptr_t address)
{
    const struct follow_module *module = module_at(address);
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

static bool has_text_relocations(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const Elf64_Dyn *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_TEXTREL ||
                (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
                return true;
    }
    return false;
}

// The loader, the kernel's, and our own code.
static bool is_refused(uintptr_t address)
{
    bool refused = true;
    if (patch_lock())
        return true;
    loadmap_enter();
    const struct patch_module *module = functions_module(address);
    refused = !module || module->refused;
    loadmap_leave();
    patch_unlock();
    return refused;
}

// A place for a module: that of one that has gone, or a new one.
static struct follow_module *free_place(void)
{
    const unsigned count = atomic_load_explicit(&module_count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        if (!atomic_load_explicit(&modules[i].here, memory_order_relaxed))
            return &modules[i];
    if (count == MODULES)
        return NULL;
    atomic_store_explicit(&module_count, count + 1, memory_order_release);
    return &modules[count];
}

// Adds the module if it is new.
static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uintptr_t start, end;
    struct follow_module *module;
    if (!code_of(info, &start, &end) || module_at(start) || has_text_relocations(info) ||
        !(module = free_place()))
        return 0;
    module->start = start;
    module->end = end;
    module->part = part_of(info);
    module->patched = false;
    const size_t number = (size_t)(module - modules);
    // Of others, none.
    calls_followed[number][0] = module->part == PART_FOLLOWED ? start : end;
    atomic_signal_fence(memory_order_seq_cst);
    calls_followed[number][1] = end;
    atomic_store_explicit(&module->here, true, memory_order_release);
    atomic_store_explicit(&pending, true, memory_order_relaxed);
    return 0;
}

static void drop_module(struct follow_module *module)
{
    uintptr_t *bounds = calls_followed[module - modules];
    bounds[0] = bounds[1];
    atomic_store_explicit(&module->here, false, memory_order_release);
    atomic_store_explicit(&module->count, 0, memory_order_relaxed);
    if (module->functions)
        syscall(SYS_munmap, module->functions, (module->room + 1) * sizeof *module->functions);
    module->functions = NULL;
    if (module->patched)
        sites_forget(module->start, module->end);
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

// What the program means when it calls a function that is ours. In normal context.
static uintptr_t real_function(uintptr_t function)
{
    const uintptr_t known = known_real(function);
    Dl_info info;
    if (known || module_at(function) != module_at((uintptr_t)&calls_sites_start) ||
        !dladdr((void *)function, &info) || !info.dli_sname ||
        (uintptr_t)info.dli_saddr != function)
        return known ? known : function;
    const uintptr_t real = (uintptr_t)dlsym(RTLD_NEXT, info.dli_sname);
    const unsigned count = atomic_load_explicit(&interposed_count, memory_order_relaxed);
    if (!real || real == function || count == INTERPOSED_MOST)
        return function;
    interposed[count].ours = function;
    interposed[count].real = real;
    atomic_store_explicit(&interposed_count, count + 1, memory_order_release);
    return real;
}

// ---- sites

static struct site_counts found;
static struct {
    uintptr_t address;
    enum site_stays why;
} stayed[STAYS_MOST];
static unsigned stayed_count;
static struct site_change changes[CHANGES];
static size_t change_count;

static void note_stays(uintptr_t address, enum site_stays why)
{
    if (stayed_count < STAYS_MOST) {
        stayed[stayed_count].address = address;
        stayed[stayed_count].why = why;
        stayed_count++;
    } else {
        totals->sites_skipped++;
    }
}

static bool is_tail(const struct site *site)
{
    return site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
}

static int apply_changes(void)
{
    int error = change_count ? sites_apply(changes, change_count, COMPANY_NONE) : 0;
    change_count = 0;
    return error;
}

// Through a stub: what has no room for a call of five bytes, or whose operand is on the stack.
static bool lead_through_stub(struct site *site, bool within)
{
    const struct stub_plan plan = {
        .kind = STUB_HOOK,
        .push_target = true,
        .before = is_tail(site) ? (within ? calls_callback_indirect : calls_enter_indirect)
                                : (within ? calls_callback : calls_enter)};
    struct stub *stub;
    // Of code that is not followed only what costs little.
    if ((within && site->form == FORM_TRAP) || stub_make(site, &plan, &stub))
        return false;
    changes[change_count++] = (struct site_change){site, stub};
    if (!within)
        totals->traps += site->form == FORM_TRAP;
    return change_count < CHANGES || !apply_changes();
}

// Counts what was done with a site of a followed module.
static void count(bool done)
{
    ++*(done ? &totals->sites_patched : &totals->sites_skipped);
}

static int plan(uintptr_t address, uintptr_t target)
{
    return detour_plan(address, target, real_function(target));
}

// Where the function at `start` ends; 0: it is not all code.
static uintptr_t end_of(uintptr_t start)
{
    uintptr_t end = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    const struct patch_function *known = functions_at(start);
    if (known && known->start == start && known->decoded)
        end = known->end;
    loadmap_leave();
    patch_unlock();
    return end;
}

static int plan_short_tail(const struct site *site)
{
    for (unsigned i = 0; i < stayed_count; i++)
        if (stayed[i].why == STAYS_TABLE)
            return -ENOTSUP;
    const uintptr_t end = end_of(site->function);
    return end ? detour_plan_tail(site->address, site->function, end) : -ENOTSUP;
}

static void take_followed(struct site *site)
{
    if (site->function == getauxval(AT_ENTRY)) // who calls main is no function of the program
        return;
    if (site->slot && !site->target) // through the GOT: it is not told at the call
        real_function(*(const uintptr_t *)site->slot);
    if ((site->kind == SITE_CALL || site->kind == SITE_TAIL) && !site->thunk) {
        const bool bound = site->target != 0;
        count(bound ? !plan(site->address, site->target)
                    : site->slot && !detour_plan_slot(site->address, site->slot));
    } else if (!site->thunk && (!detour_plan_indirect(site->address, DETOUR_INDIRECT) ||
                                (is_tail(site) && !plan_short_tail(site)))) {
        count(true);
    } else {
        const bool done = lead_through_stub(site, false);
        totals->stubs += done;
        count(done);
    }
}

static void take_callback(struct site *site)
{
    bool done = false;
    if ((site->kind == SITE_CALL || site->kind == SITE_TAIL) && !site->thunk)
        done = site->target && is_followed_code(site->target) && !plan(site->address, site->target);
    else
        done = (!site->thunk && !detour_plan_indirect(site->address, DETOUR_WITHIN)) ||
               lead_through_stub(site, true);
    totals->callbacks += done;
}

// The function that a direct call or jump leads to, through its PLT entry; 0. *slot: of that.
static uintptr_t target_of(uintptr_t address, const struct instruction *in, bool any,
                           uintptr_t *slot)
{
    const uintptr_t target = decode_target(in, address);
    uintptr_t result = 0;
    *slot = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    const struct patch_module *module = functions_module(address);
    *slot = module ? functions_plt_slot(module, target) : 0;
    const struct patch_function *function = *slot ? NULL : functions_at(target);
    if (*slot)
        result = functions_slot_target(*slot);
    else if (function ? function->start == target : any && module_at(target))
        result = target;
    loadmap_leave();
    patch_unlock();
    return result;
}

// What no stub can take keeps its return address by a detour.
static void take_stayed(uintptr_t address, enum site_stays why, bool within)
{
    struct instruction in = {.length = 0};
    bool done = false;
    if (why == STAYS_UNDECODED) {
        totals->opaque += !within;
        return;
    }
    if (why == STAYS_TABLE) {
        totals->tables += !within;
        totals->sites_skipped += !within;
        return;
    }
    if (why != STAYS_MIDDLE && decode((const unsigned char *)address, INSTRUCTION_MOST, &in)) {
        if (in.flow == FLOW_CALL_INDIRECT || in.flow == FLOW_JUMP_INDIRECT) {
            done = !detour_plan_indirect(address, within ? DETOUR_WITHIN : DETOUR_INDIRECT);
        } else {
            uintptr_t slot;
            const uintptr_t target = target_of(address, &in, in.flow == FLOW_CALL, &slot);
            if (target)
                done = (!within || is_followed_code(target)) && !plan(address, target);
            else
                done = slot && !within && !detour_plan_slot(address, slot);
        }
    }
    if (within) {
        totals->callbacks += done;
        return;
    }
    count(done);
}

static void add_function(struct follow_module *module, uintptr_t function)
{
    bool begins = false;
    if (patch_lock())
        return;
    loadmap_enter();
    const struct patch_function *known = functions_at(function);
    // Both halves of a function that was split may jump into each other; the cold one is not
    // aligned.
    begins = known && known->start == function && known->whole &&
             (!known->inside || function % FUNCTION_ALIGNMENT == 0);
    loadmap_leave();
    patch_unlock();
    const size_t number = atomic_load_explicit(&module->count, memory_order_relaxed);
    if (!begins || number == module->room)
        return;
    module->functions[number] = function;
    atomic_store_explicit(&module->count, number + 1, memory_order_release);
}

// A jump to the function's own first instruction is a tail call if the frame is gone right before
// it, and else a loop.
static void take_self(uintptr_t function)
{
    const uintptr_t end = end_of(function);
    struct instruction in, last = {.length = 0};
    for (uintptr_t pc = function; pc < end; pc += in.length, last = in) {
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return;
        if (in.flow == FLOW_JUMP && decode_target(&in, pc) == function && last.length &&
            decode_restores_stack(&last))
            count(!plan(pc, function));
    }
}

static int take_function(uintptr_t function, void *context)
{
    struct follow_module *module = context;
    const bool within = module->part != PART_FOLLOWED;
    struct site_list list;
    stayed_count = 0;
    if (sites_find(function, &list, &found))
        return 0;
    if (!within)
        take_self(function);
    for (unsigned i = 0; i < list.count; i++)
        (within ? take_callback : take_followed)(&list.site[i]);
    for (unsigned i = 0; i < stayed_count; i++)
        take_stayed(stayed[i].address, stayed[i].why, within);
    if (!within)
        add_function(module, function);
    return 0;
}

static int count_function(uintptr_t function, void *context)
{
    (void)function;
    ++*(size_t *)context;
    return 0;
}

static int take_module(struct follow_module *module)
{
    size_t functions = 0;
    module->patched = true;
    if (is_refused(module->start)) {
        calls_followed[module - modules][0] = module->end;
        module->part = PART_NONE;
        return 0;
    }
    totals->modules += module->part == PART_FOLLOWED;
    if (sites_functions(module->start, count_function, &functions)) {
        totals->opaque += module->part == PART_FOLLOWED;
        return 0;
    }
    const size_t bytes = (functions + 1) * sizeof *module->functions;
    const long memory =
        syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == -1)
        return -ENOMEM;
    module->functions = (uintptr_t *)memory;
    module->room = functions;
    sites_functions(module->start, take_function, module);
    if (module->part == PART_FOLLOWED)
        totals->functions += module->count;
    return 0;
}

int calls_sites_take_pending(void)
{
    int error = 0;
    // A signal's handler may come here, too: whoever takes it does it.
    if (!atomic_exchange_explicit(&pending, false, memory_order_relaxed))
        return 0;
    const unsigned count = atomic_load_explicit(&module_count, memory_order_relaxed);
    for (unsigned i = 0; i < count && !error; i++)
        if (atomic_load_explicit(&modules[i].here, memory_order_relaxed) && !modules[i].patched)
            error = take_module(&modules[i]);
    int failed = apply_changes();
    if (!failed)
        failed = detours_make();
    return error ? error : failed;
}

void calls_sites_leave_pending(void)
{
    if (!atomic_exchange_explicit(&pending, false, memory_order_relaxed))
        return;
    const unsigned count = atomic_load_explicit(&module_count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        if (atomic_load_explicit(&modules[i].here, memory_order_relaxed) && !modules[i].patched) {
            modules[i].patched = true;
            totals->late += modules[i].part == PART_FOLLOWED;
        }
}

bool calls_sites_are_pending(void)
{
    return atomic_load_explicit(&pending, memory_order_relaxed);
}

static bool truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    struct stub_place place;
    if (detour_truth(pc, sp, interrupted))
        return true;
    if (!sites_locate(*pc, &place))
        return false;
    *pc = place.pc;
    if (place.pushed)
        *sp += sizeof *sp;
    if (place.pc == place.site->address) // in the hook before the call
        *interrupted = true;
    return true;
}

int calls_sites_start(enum live_calls_by by, struct live_encode *counts)
{
    int error = sites_start();
    if (error)
        return error;
    const struct detour_hooks hooks = {
        .direct = calls_enter, .indirect = calls_enter_indirect, .within = calls_callback_indirect};
    detours_start(&hooks);
    calls_by = by;
    totals = counts;
    found.stayed = note_stays;
    unwind_truth = truth;
    calls_by_sites = true;
    dl_iterate_phdr(add_module, NULL);
    return calls_sites_take_pending();
}

static int is_at(struct dl_phdr_info *info, size_t size, void *context)
{
    const struct follow_module *module = context;
    uintptr_t start, end;
    (void)size;
    return code_of(info, &start, &end) && start == module->start;
}

void calls_sites_changed(void)
{
    const int saved = errno;
    const unsigned count = atomic_load_explicit(&module_count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        if (atomic_load_explicit(&modules[i].here, memory_order_relaxed) &&
            !dl_iterate_phdr(is_at, &modules[i]))
            drop_module(&modules[i]);
    dl_iterate_phdr(add_module, NULL);
    errno = saved;
}

void calls_sites_after_fork(struct live_encode *counts)
{
    if (!calls_by_sites)
        return;
    totals = counts;
    sites_after_fork();
}

// ---- what hooks and walks ask

// Pointers to functions of libraries may be those of PLT entries.
static uintptr_t behind_plt(uintptr_t function)
{
    uintptr_t target = 0;
    if (patch_lock())
        return function;
    loadmap_enter();
    const struct patch_module *module = functions_module(function);
    const uintptr_t slot = module ? functions_plt_slot(module, function) : 0;
    if (slot)
        target = functions_slot_target(slot);
    loadmap_leave();
    patch_unlock();
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
    const struct follow_module *module = module_at(function);
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
    const struct follow_module *module = module_at(return_address - 1);
    if (!module || (module->part != PART_FOLLOWED && !is_followed_code(function)))
        return false;
    const struct site *site = sites_before(return_address);
    return (site && atomic_load_explicit(&site->stub, memory_order_relaxed)) ||
           detour_is_before(return_address);
}

bool calls_sites_are_ours(uintptr_t return_address)
{
    const struct follow_module *module = module_at(return_address);
    return module && module == module_at((uintptr_t)&calls_sites_start);
}

uintptr_t calls_sites_true(uintptr_t address)
{
    return calls_by_sites ? sites_true_pc(address) : address;
}
