// SPDX-License-Identifier: MIT
// Functions, sites and edges as they are met.
//
// Tail jumps are never patched: nobody would undo what they did to the state of a thread in a
// function that was entered from code that is not patched. They are silent edges, like all that
// cannot be patched. A function from which control may go silently to where nobody knows is *open*:
// its id has a bit set that calls from it take off (encode/state.h). So whatever is reached from
// there unseen has an id that does not decode, rather than one that leads astray.

#include "track/encode/sites/call_graph.h"
#include "base/gc_hidden.h"
#include "base/now.h"
#include "loadmap/loadmap.h"
#include "loadmap/lookup.h"
#include "patch/functions/functions.h"
#include "track/context_id/context_id.h"
#include "track/encode/sites/leaf_functions.h"
#include "track/encode/sites/libraries.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/sites/silent_edges.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/hooks.h"
#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

static struct series known = {.size = sizeof(struct encode_site)};
static uint32_t known_count;
static uint32_t next_free = GRAPH_NONE; // of those that were unloaded
static struct site_counts found;

// Code that is not rewritten while there are other threads: libc blocks all signals now and then,
// and a trap would kill it.
static struct module_ref libc[2];
// Code that is never rewritten: while an exception is under way, numbers mean nothing.
static struct module_ref unwinder;
static struct module_ref program;

// Of the function that is being looked at: what stays.
#define STAYS_MOST 1024
static struct {
    uintptr_t address;
    enum site_stays why;
} stayed[STAYS_MOST] GC_HIDDEN;
static unsigned stayed_count;

#define UNKNOWN_PLACE 1 // of no function

// Functions that are to be looked at.
static uint32_t next_look = GRAPH_NONE;

static void note_stays(uintptr_t address, enum site_stays why)
{
    if (stayed_count < STAYS_MOST) {
        stayed[stayed_count].address = address;
        stayed[stayed_count].why = why;
    }
    stayed_count++;
}

int encode_graph_start(void)
{
    static const char *const inside[] = {"gnu_get_libc_version", "pthread_create"};
    bool unloading;
    found.stayed = note_stays;
    loadmap_enter();
    for (unsigned i = 0; i < sizeof libc / sizeof *libc; i++)
        loadmap_find((uintptr_t)dlsym(RTLD_NEXT, inside[i]), &libc[i], &unloading);
    loadmap_find((uintptr_t)lookup_symbol(RTLD_NEXT, "_Unwind_RaiseException"), &unwinder,
                 &unloading);
    loadmap_find(getauxval(AT_ENTRY), &program, &unloading);
    loadmap_leave();
    if (!encode_function_reserve(0))
        return -ENOMEM;
    encode.unknown_callee = graph_add_function(&encode.graph, UNKNOWN_PLACE);
    if (encode.unknown_callee == GRAPH_NONE)
        return -ENOMEM;
    *encode_function_of(encode.unknown_callee) =
        (struct encode_function){.flags = FUNCTION_OUTSIDE};
    return 0;
}

// Whether it is known when the code there goes: never, or the loader tells.
static bool is_here_to_stay(uintptr_t address)
{
    struct module_ref module;
    bool unloading;
    loadmap_enter();
    const bool here = loadmap_find(address, &module, &unloading) &&
                      (module.permanent || encode_is_watched(address));
    loadmap_leave();
    return here;
}

// Where the function begins that a pc is in; 0: no table covers it.
static uintptr_t function_start(uintptr_t pc)
{
    const struct patch_function *function = functions_at(pc);
    return function && !functions_is_linkage(function) ? function->start : 0;
}

// Where the function begins that a call of this address enters; the address itself if no table
// covers it, or that may be unloaded. A pointer to a PLT entry is one to what that leads to.
static uintptr_t entered_by(uintptr_t address)
{
    const uintptr_t bound =
        is_here_to_stay(address) ? encode_resolve_target(address, address, 0) : 0;
    const uintptr_t entered = bound ? bound : address;
    const uintptr_t start = is_here_to_stay(entered) ? function_start(entered) : 0;
    return start ? start : entered;
}

// The function.
static uint32_t add_function(uintptr_t address)
{
    const uint32_t before = encode.graph.function_count;
    const uintptr_t start = entered_by(address);
    if (!encode_function_reserve(before))
        return GRAPH_NONE;
    uint32_t function = graph_add_function(&encode.graph, loadmap_place(start));
    if (function == GRAPH_NONE)
        return GRAPH_NONE;
    struct encode_function *facts = encode_function_of(function);
    if (function >= before)
        *facts = encode_function_new(start);
    else if (facts->flags & FUNCTION_NOT_INSTRUMENTED)
        facts->address = start; // it may have been loaded again, elsewhere
    return facts->address == start ? function : GRAPH_NONE; // a file may be loaded twice
}

static void will_look_at(uint32_t function)
{
    struct encode_function *facts = encode_function_of(function);
    if (!(facts->flags & FUNCTION_NOT_INSTRUMENTED))
        return;
    facts->flags &= (uint16_t) ~(FUNCTION_OUTSIDE | FUNCTION_NOT_INSTRUMENTED);
    facts->next = next_look;
    next_look = function;
}

void encode_add_silent(uint32_t from, uintptr_t behind, uintptr_t target, enum edge_kind kind)
{
    uint32_t to = target ? add_function(target) : GRAPH_NONE;
    if (to == GRAPH_NONE ||
        graph_add_edge(&encode.graph, loadmap_place(behind), from, to, kind) == GRAPH_NONE)
        encode_function_of(from)->flags |= FUNCTION_OPEN;
    // Nothing tells that a thread comes there silently; its calls do.
    if (to != GRAPH_NONE)
        will_look_at(to);
}

struct encode_site *encode_site_number(uint32_t number)
{
    return number < known_count ? series_at(&known, number) : NULL;
}

struct encode_site *encode_site_of(const struct site *site)
{
    // Acquire: who sees it sees what it holds.
    return atomic_load_explicit(&site->known, memory_order_acquire);
}

void encode_drop_site(uint32_t number)
{
    struct encode_site *site = series_at(&known, number);
    encode_free_targets(site->targets);
    *site = (struct encode_site){.edge = GRAPH_NONE, .caller = next_free};
    next_free = number;
}

static bool is_indirect(const struct site *site)
{
    return site->kind == SITE_CALL_INDIRECT || site->kind == SITE_TAIL_INDIRECT || site->thunk;
}

static bool is_in(const struct module_ref *module, uintptr_t address)
{
    return address >= module->start && address < module->end;
}

static bool is_libcs(uintptr_t address)
{
    return is_in(&libc[0], address) || is_in(&libc[1], address);
}

bool encode_takes_part(uintptr_t address)
{
    return encode.by == LIVE_BY_ALL || is_in(&program, address) ||
           (encode.by == LIVE_BY_LIBRARIES && !is_libcs(address));
}

bool encode_is_in_unwinder(uintptr_t address)
{
    return is_in(&unwinder, address);
}

// A place for a site that is not known yet. NULL: no memory.
static struct encode_site *new_site(void)
{
    if (next_free != GRAPH_NONE) {
        struct encode_site *site = series_at(&known, next_free);
        next_free = site->caller;
        return site;
    }
    return series_reach(&known, &encode.pool, known_count) ? series_at(&known, known_count++)
                                                           : NULL;
}

// A hook for a site; NULL: it stays as it is.
static struct stub *hook_for(uint32_t function, struct site *site)
{
    const bool tail = site->kind == SITE_TAIL_INDIRECT, indirect = is_indirect(site);
    const struct stub_plan plan = {.kind = STUB_HOOK,
                                   .before = tail       ? encode_before_tail
                                             : indirect ? encode_push_indirect
                                                        : encode_push_direct,
                                   .after = tail ? NULL : encode_after,
                                   .push_target = indirect};
    struct stub *hook;
    struct encode_site *added;
    if (site->form == FORM_TRAP || stub_make(site, &plan, &hook) || !(added = new_site()))
        return NULL;
    *added = (struct encode_site){.site = site,
                                  .hook = hook,
                                  .edge = GRAPH_NONE,
                                  .caller = function,
                                  .in_libc = is_libcs(site->address)};
    // Release: who sees it sees what it holds.
    atomic_store_explicit(&site->known, added, memory_order_release);
    return hook;
}

// Whether libc has made a thread, told of or not.
static bool has_threads(void)
{
    extern char __libc_single_threaded __attribute__((weak)); // in glibc 2.32 and later
    return &__libc_single_threaded && !__libc_single_threaded;
}

enum threading encode_threading(void)
{
    encode.threaded |= has_threads(); // there may be some that nobody has told of
    return encode.threaded ? THREADS_OTHERS : THREADS_NONE;
}

#define LEFT_MOST 128
static uintptr_t left[LEFT_MOST]; // functions whose calls are left as they are
static unsigned left_count;

void encode_leave_calls(const uintptr_t *functions, unsigned count)
{
    for (unsigned i = 0; i < count && left_count < LEFT_MOST; i++)
        left[left_count++] = functions[i];
}

static bool is_left(uintptr_t target)
{
    for (unsigned i = 0; i < left_count; i++)
        if (left[i] == target)
            return true;
    return false;
}

// 0: not known before it runs.
static uintptr_t target_of(const struct site *site)
{
    return is_indirect(site) ? encode_resolve_target(site->address, 0, site->slot) : site->target;
}

// Where a direct call or jump goes at first, which may be an entry for linkage. Before it is patched.
static uintptr_t entry_of(const struct site *site)
{
    const uintptr_t end = site->address + site->length;
    int32_t distance;
    __builtin_memcpy(&distance, (const void *)(end - sizeof distance), sizeof distance);
    return end + (uintptr_t)(intptr_t)distance;
}

// Calls that only a trap could follow, to where nobody knows.
static bool has_trap(const struct site_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        if (list->site[i].form == FORM_TRAP && !target_of(&list->site[i]))
            return true;
    return false;
}

static void add_sites(uint32_t function, const struct site_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        struct site *site = &list->site[i];
        const uintptr_t behind = site->address + site->length;
        const bool tail = site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
        const bool direct = !is_indirect(site);
        const uintptr_t target = target_of(site);
        if (context_id_is_left_alone(target))
            continue;
        if (direct && site->slot)
            encode_note_linkage(entry_of(site));
        if (is_left(target) || (direct && encode_calls_leaf(target)))
            continue;
        struct stub *hook = tail && target ? NULL : hook_for(function, site);
        const bool led = hook && !patch_add(site, hook);
        if (!led)
            encode_add_silent(function, behind, target, tail ? EDGE_SILENT_JUMP : EDGE_SILENT_CALL);
        ++*(led ? &encode.counts->sites_patched : &encode.counts->sites_skipped);
    }
}

static void look_at(uint32_t function)
{
    struct site_list list = {0};
    const uintptr_t address = encode_function_of(function)->address;
    stayed_count = 0;
    const bool stays = (encode.threaded && is_libcs(address)) || is_in(&unwinder, address);
    if (!encode_takes_part(address)) {
        encode_function_of(function)->flags |= FUNCTION_OUTSIDE;
        return;
    }
    if (!function_start(address) && encode_calls_leaf(address))
        return;
    // Where nothing would be patched, nothing is missed.
    if (!is_here_to_stay(address) || !function_start(address) ||
        sites_find(address, &list, &found) || (stays && list.count + stayed_count > 0)) {
        // Nobody knows where it leads to, nor what leads to it by a jump.
        encode_function_of(function)->flags |= FUNCTION_OUTSIDE | FUNCTION_OPEN;
        return;
    }
    encode.counts->sites_skipped += stayed_count;
    if (stayed_count > STAYS_MOST)
        encode_function_of(function)->flags |= FUNCTION_OPEN;
    for (unsigned i = 0; i < stayed_count && i < STAYS_MOST; i++)
        encode_add_unpatched(function, stayed[i].address, stayed[i].why);
    encode_add_function_parts(function);
    if (has_trap(&list))
        encode_function_of(function)->flags |= FUNCTION_OPEN;
    add_sites(function, &list);
}

// The thread's time is a system call: of many looks, one in some is timed, and stands for the others.
enum { TIMED_FIRST = 64, TIMED_EVERY = 8 };

static uint64_t looks_to_time(void)
{
    static uint32_t looks;
    if (looks++ < TIMED_FIRST)
        return 1;
    return looks % TIMED_EVERY ? 0 : TIMED_EVERY;
}

// The function, with its sites led to hooks.
static uint32_t instrument(uintptr_t address)
{
    const uint32_t first_edge = encode.graph.edge_count;
    const uint32_t function = add_function(address);
    if (function == GRAPH_NONE || encode.stopped ||
        !(encode_function_of(function)->flags & FUNCTION_NOT_INSTRUMENTED))
        return function;
    const uint64_t timed = looks_to_time(), begin = timed ? now_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    uint32_t looked = GRAPH_NONE;
    will_look_at(function);
    while (next_look != GRAPH_NONE) {
        const uint32_t next = next_look;
        next_look = encode_function_of(next)->next;
        look_at(next);
        encode_function_of(next)->next = looked;
        looked = next;
    }
    // If that fails, calls are as silent as any that cannot be patched.
    if (patch_commit(encode_threading()))
        for (uint32_t f = looked; f != GRAPH_NONE; f = encode_function_of(f)->next)
            encode_function_of(f)->flags |= FUNCTION_OPEN;
    encode_spread_open(first_edge);
    for (; looked != GRAPH_NONE; looked = encode_function_of(looked)->next)
        if (encode_has_become_open(looked))
            encode_invalidate();
    if (timed)
        encode_count(&encode.counts->look_ns, timed * (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin));
    return function;
}

uint32_t encode_instrument(uintptr_t address)
{
    if (patch_begin())
        return GRAPH_NONE;
    const uint32_t function = instrument(address);
    patch_end();
    return function;
}

// The edge of a call or jump that is new; GRAPH_NONE: no memory.
static uint32_t add_edge(const struct encode_site *site, place_t place, uint32_t caller,
                         uint32_t callee)
{
    const bool tail = site->site->kind == SITE_TAIL_INDIRECT;
    const enum edge_kind kind = tail                      ? EDGE_SILENT_JUMP
                                : is_indirect(site->site) ? EDGE_INDIRECT
                                                          : EDGE_CALL;
    const uint32_t edge = graph_add_edge(&encode.graph, place, caller, callee, kind);
    if (edge == GRAPH_NONE && tail) // it is left for where the graph does not say
        encode_function_of(caller)->flags |= FUNCTION_OPEN;
    if (edge == GRAPH_NONE || tail)
        return edge;
    if (!encode_may_number(edge))
        graph_edge(&encode.graph, edge)->flags |= EDGE_UNENCODED;
    encode_add_word(edge);
    return edge;
}

static uint32_t edge_of(struct encode_site *site, uintptr_t target)
{
    const uint32_t callee = instrument(target);
    const uint32_t caller = add_function(site->site->function);
    if (callee == GRAPH_NONE || caller == GRAPH_NONE)
        return GRAPH_NONE;
    const place_t place = loadmap_place(site->site->address + site->site->length);
    uint32_t edge = graph_find_edge(&encode.graph, place, callee);
    if (edge == GRAPH_NONE)
        edge = add_edge(site, place, caller, callee);
    if (edge == GRAPH_NONE)
        return edge;
    if (is_indirect(site->site))
        encode_add_target(site, target, edge);
    else
        site->edge = edge;
    return edge;
}

uint32_t encode_edge(struct encode_site *site, uintptr_t target)
{
    if (!is_indirect(site->site) && site->edge != GRAPH_NONE)
        return site->edge;
    if (patch_begin())
        return GRAPH_NONE;
    const uint32_t edge = edge_of(site, target);
    patch_end();
    return edge;
}

void encode_count_graph(void)
{
    encode.counts->functions = encode.graph.function_count;
    encode.counts->edges = encode.graph.edge_count;
    encode.counts->max_id = encode.numbering.dictionary->max_id;
    encode.counts->bytes = encode.pool.mapped + sites_bytes();
}
