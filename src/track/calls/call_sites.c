// SPDX-License-Identifier: MIT
#include "base/gc_hidden.h"
#include "base/system/agent_map.h"
#include "patch/detour.h"
#include "patch/functions/functions.h"
#include "patch/transaction.h"
#include "patch/x86_64/decode.h"
#include "track/calls/modules.h"
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAYS_MOST 4096
#define FUNCTION_ALIGNMENT 16 // of compilers that split functions

bool calls_by_sites;
static struct live_encode *totals;

// In calls_x86_64.S.
void calls_enter(void);
void calls_enter_exact(void);
void calls_enter_indirect(void);
void calls_enter_indirect_exact(void);
void calls_callback(void);
void calls_callback_exact(void);
void calls_callback_indirect(void);
void calls_callback_indirect_exact(void);

struct site_hooks {
    void (*direct)(void), (*indirect)(void);               // of followed code
    void (*within_direct)(void), (*within_indirect)(void); // of all other
};

static const struct site_hooks counting = {calls_enter, calls_enter_indirect, calls_callback,
                                           calls_callback_indirect};
static const struct site_hooks exact = {calls_enter_exact, calls_enter_indirect_exact,
                                        calls_callback_exact, calls_callback_indirect_exact};
static const struct site_hooks *hooks = &counting;

// The loader, the kernel's, and our own code.
static bool is_refused(uintptr_t address)
{
    const struct patch_module *module = functions_module(address);
    return !module || module->refused;
}

static struct site_counts found;
static struct {
    uintptr_t address;
    enum site_stays why;
} stayed[STAYS_MOST] GC_HIDDEN;
static unsigned stayed_count;

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

// Through a stub: calls without room for five bytes, or with an operand on the stack.
static bool lead_through_stub(struct site *site, bool within)
{
    const struct stub_plan plan = {
        .kind = STUB_HOOK,
        .push_target = true,
        .before = is_tail(site) ? (within ? hooks->within_indirect : hooks->indirect)
                                : (within ? hooks->within_direct : hooks->direct)};
    struct stub *stub;
    // Of code that is not followed only what costs little.
    if ((within && site->form == FORM_TRAP) || stub_make(site, &plan, &stub) ||
        patch_add(site, stub))
        return false;
    if (!within)
        totals->traps += site->form == FORM_TRAP;
    return true;
}

// Counts what was done with a site of a followed module.
static void count(bool done)
{
    ++*(done ? &totals->sites_patched : &totals->sites_skipped);
}

static int plan(uintptr_t address, uintptr_t target)
{
    return detour_plan(address, target, calls_real_function(target));
}

static int plan_short_tail(const struct site *site)
{
    for (unsigned i = 0; i < stayed_count; i++)
        if (stayed[i].why == STAYS_TABLE)
            return -ENOTSUP;
    const struct patch_function *function = functions_at(site->function);
    return function->decoded ? detour_plan_tail(site->address, site->function, function->end)
                             : -ENOTSUP;
}

static void take_followed(struct site *site)
{
    if (site->function == getauxval(AT_ENTRY)) // the caller of main is no function of the program
        return;
    if (site->slot && !site->target) // through the GOT: the call does not show it
        calls_real_function(*(const uintptr_t *)site->slot);
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
        done = site->target && calls_module_is_followed(site->target) &&
               !plan(site->address, site->target);
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
    const struct patch_module *module = functions_module(address);
    *slot = module ? functions_plt_slot(module, target) : 0;
    if (*slot)
        return functions_slot_target(*slot);
    const struct patch_function *function = functions_at(target);
    const bool begins = function ? function->start == target : any && calls_module_at(target);
    return begins ? target : 0;
}

// A call that no stub can take goes through a detour, which keeps its return address.
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
                done = (!within || calls_module_is_followed(target)) && !plan(address, target);
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

static void add_function(struct follow_module *module, const struct patch_function *facts)
{
    // Both halves of a function that was split may jump into each other; the cold one is not
    // aligned.
    const bool begins = facts->whole && (!facts->inside || facts->start % FUNCTION_ALIGNMENT == 0);
    const size_t number = atomic_load_explicit(&module->count, memory_order_relaxed);
    if (!begins || number == module->room)
        return;
    module->functions[number] = facts->start;
    atomic_store_explicit(&module->count, number + 1, memory_order_release);
}

// A jump to the function's own first instruction is a tail call if the frame is gone right before
// it, and else a loop.
static void take_self(const struct patch_function *facts)
{
    const uintptr_t end = facts->decoded && facts->restarts ? facts->end : facts->start;
    struct instruction in, last = {.length = 0};
    for (uintptr_t pc = facts->start; pc < end; pc += in.length, last = in) {
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return;
        if (in.flow == FLOW_JUMP && decode_target(&in, pc) == facts->start && last.length &&
            decode_restores_stack(&last))
            count(!plan(pc, facts->start));
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
    const struct patch_function *facts = functions_at(function);
    if (!within && facts->start == function)
        take_self(facts);
    for (unsigned i = 0; i < list.count; i++)
        (within ? take_callback : take_followed)(&list.site[i]);
    for (unsigned i = 0; i < stayed_count; i++)
        take_stayed(stayed[i].address, stayed[i].why, within);
    if (!within && facts->start == function)
        add_function(module, facts);
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
        module->part = PART_NONE;
        calls_pages_put(module->start, module->end, calls_module_page(module));
        return 0;
    }
    totals->modules += module->part == PART_FOLLOWED;
    if (sites_functions(module->start, count_function, &functions)) {
        totals->opaque += module->part == PART_FOLLOWED;
        return 0;
    }
    const size_t bytes = (functions + 1) * sizeof *module->functions;
    agent_map_claim(bytes, AGENT_MAP_PRIVATE);
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

static int take_modules(void)
{
    int error = 0;
    const unsigned count = atomic_load_explicit(&calls_modules.count, memory_order_relaxed);
    const unsigned first = calls_modules.first_pending;
    calls_modules.first_pending = CALLS_MODULES;
    for (unsigned i = first; i < count && !error; i++)
        if (atomic_load_explicit(&calls_modules.module[i].here, memory_order_relaxed) &&
            !calls_modules.module[i].patched)
            error = take_module(&calls_modules.module[i]);
    const int failed = patch_commit(THREADS_NONE);
    return error ? error : failed;
}

int calls_sites_take_pending(void)
{
    // A signal's handler may come here, too: the one that takes it does it.
    if (!atomic_exchange_explicit(&calls_modules.pending, false, memory_order_relaxed))
        return 0;
    int error = patch_begin();
    if (error)
        return error;
    error = take_modules();
    patch_end();
    return error;
}

void calls_sites_leave_pending(void)
{
    if (!atomic_exchange_explicit(&calls_modules.pending, false, memory_order_relaxed))
        return;
    const unsigned count = atomic_load_explicit(&calls_modules.count, memory_order_relaxed);
    const unsigned first = calls_modules.first_pending;
    calls_modules.first_pending = CALLS_MODULES;
    for (unsigned i = first; i < count; i++)
        if (atomic_load_explicit(&calls_modules.module[i].here, memory_order_relaxed) &&
            !calls_modules.module[i].patched) {
            calls_modules.module[i].patched = true;
            totals->late += calls_modules.module[i].part == PART_FOLLOWED;
        }
}

bool calls_sites_are_pending(void)
{
    return atomic_load_explicit(&calls_modules.pending, memory_order_relaxed);
}

static enum unwind_standing truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    const enum unwind_standing in_detour = detour_truth(pc, sp, interrupted);
    return in_detour ? in_detour : sites_truth(pc, sp, interrupted);
}

int calls_sites_start(enum live_by by, bool exactly, struct live_encode *counts)
{
    int error = sites_start();
    if (error)
        return error;
    hooks = exactly ? &exact : &counting;
    const struct detour_hooks detours = {
        .direct = hooks->direct, .indirect = hooks->indirect, .within = hooks->within_indirect};
    detours_start(&detours);
    calls_modules.by = by;
    totals = counts;
    found.stayed = note_stays;
    unwind_truth = truth;
    calls_by_sites = true;
    calls_modules_add();
    error = calls_sites_take_pending();
    calls_modules.started = true;
    return error;
}

void calls_sites_changed(bool gone)
{
    const int saved = errno;
    if (gone)
        calls_modules_drop();
    calls_modules_add_new();
    errno = saved;
}

void calls_sites_after_fork(struct live_encode *counts)
{
    if (calls_by_sites)
        totals = counts;
}
