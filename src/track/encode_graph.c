// SPDX-License-Identifier: MIT
// Functions, sites and edges as they are met.
//
// Tail jumps are never patched: nobody would undo what they did to the state of a thread in a
// function that was entered from code that is not patched. They are silent edges, like all that
// cannot be patched. A function from which control may go silently to where nobody knows is *open*:
// all its edges, in and out, push. So whatever is reached from there has no path by numbers to a
// head, and decoding it fails, rather than lead astray.

#include "loadmap/loadmap.h"
#include "patch/decode.h"
#include "patch/functions.h"
#include "patch/jump_table.h"
#include "patch/lock.h"
#include "track/asked.h"
#include "track/encode_facts.h"
#include "track/encode_here.h"
#include <dlfcn.h>
#include <errno.h>

static struct series known = {.size = sizeof(struct encode_site)};
static uint32_t known_count;
static struct lookup known_lookup;
static struct site_counts found;

// Code that is not rewritten while there are other threads: libc blocks all signals now and then,
// and a trap would kill it.
static struct module_ref libc[2];
// Code that is never rewritten: while an exception is under way, numbers mean nothing.
static struct module_ref unwinder;

// Of the function that is being looked at: what stays.
#define STAYS_MOST 1024
static struct {
    uintptr_t address;
    enum site_stays why;
} stayed[STAYS_MOST];
static unsigned stayed_count;

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
    loadmap_find((uintptr_t)dlsym(RTLD_NEXT, "_Unwind_RaiseException"), &unwinder, &unloading);
    loadmap_leave();
    return 0;
}

static bool is_permanent(uintptr_t address)
{
    struct module_ref module;
    bool unloading;
    loadmap_enter();
    const bool permanent = loadmap_find(address, &module, &unloading) && module.permanent;
    loadmap_leave();
    return permanent;
}

// Libraries that were loaded later are patched until the first one is unloaded: then another one
// could be in the place of any of them.
static bool is_here_to_stay(uintptr_t address)
{
    struct module_ref module;
    bool unloading;
    loadmap_enter();
    const bool here = loadmap_find(address, &module, &unloading) &&
                      (module.permanent || (!encode.unloads && loadmap_is_programs(address)));
    loadmap_leave();
    return here;
}

// Where the function begins that a call of this address enters; the address itself if no table
// covers it, or that may be unloaded.
static uintptr_t start_of(uintptr_t address)
{
    uintptr_t start = address;
    if (!is_here_to_stay(address) || patch_lock())
        return start;
    loadmap_enter();
    struct patch_function *function = functions_at(address);
    if (function)
        start = function->start;
    loadmap_leave();
    patch_unlock();
    return start;
}

// The function. A new one is as good as open until it is looked at.
static uint32_t add_function(uintptr_t address)
{
    const uint32_t before = encode.graph.function_count;
    const uintptr_t start = start_of(address);
    if (!encode_facts_reach(before))
        return GRAPH_NONE;
    uint32_t function = graph_add_function(&encode.graph, loadmap_place(start));
    if (function != GRAPH_NONE && function >= before)
        *encode_facts_of(function) =
            (struct encode_facts){.address = start, .flags = OPEN | UNLOOKED};
    return function;
}

static void will_look_at(uint32_t function)
{
    struct encode_facts *facts = encode_facts_of(function);
    if (!(facts->flags & UNLOOKED))
        return;
    facts->flags &= (uint16_t) ~(OPEN | UNLOOKED);
    facts->next = next_look;
    next_look = function;
}

static void add_silent(uint32_t from, uintptr_t behind, uintptr_t target, enum edge_kind kind)
{
    uint32_t to = target ? add_function(target) : GRAPH_NONE;
    if (to == GRAPH_NONE ||
        graph_add_edge(&encode.graph, loadmap_place(behind), from, to, kind) == GRAPH_NONE)
        encode_facts_of(from)->flags |= OPEN;
    // Who comes there silently is not known to come: its calls are.
    if (to != GRAPH_NONE)
        will_look_at(to);
}

// Where a word of the GOT, or a PLT entry, leads to.
static uintptr_t target_behind(uintptr_t from, uintptr_t target, uintptr_t slot)
{
    uintptr_t result = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    struct patch_module *module = functions_module(from);
    if (!slot && module && target)
        slot = functions_plt_slot(module, target);
    if (slot)
        result = functions_slot_target(slot);
    else if (target && functions_at(target))
        result = target;
    loadmap_leave();
    patch_unlock();
    return result;
}

static bool stack_is_empty(uintptr_t pc)
{
    bool empty = true;
    if (patch_lock())
        return true;
    loadmap_enter();
    const struct patch_function *function = functions_at(pc);
    if (function)
        empty = functions_stack_is_empty(function, pc);
    loadmap_leave();
    patch_unlock();
    return empty;
}

struct switch_parts {
    uint32_t function;
    uintptr_t behind;
};

static void add_switch_part(uintptr_t part, void *context)
{
    const struct switch_parts *parts = context;
    add_silent(parts->function, parts->behind, part, EDGE_SILENT_JUMP);
}

static void add_stays(uint32_t function, uintptr_t address, enum site_stays why)
{
    struct instruction in;
    // Of those for thread-local storage, nothing comes back to code of ours.
    if (why == STAYS_PREFIXED)
        return;
    if (why == STAYS_TABLE) {
        struct switch_parts parts = {function, address + 1};
        if (!jump_table_stays(address, add_switch_part, &parts) && stack_is_empty(address))
            encode_facts_of(function)->flags |= OPEN;
        return;
    }
    if (why == STAYS_UNDECODED || !decode((const unsigned char *)address, INSTRUCTION_MOST, &in)) {
        encode_facts_of(function)->flags |= OPEN;
        return;
    }
    const uintptr_t behind = address + in.length;
    uintptr_t target = 0, slot = 0;
    const bool jumps =
        in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH || in.flow == FLOW_JUMP_INDIRECT;
    if (in.flow == FLOW_CALL || in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH)
        target = decode_target(&in, address);
    else if (in.rip_relative)
        slot = behind + (uintptr_t)(intptr_t)in.disp;
    if (why == STAYS_MIDDLE && target == behind)
        return; // reads the pc
    target = target_behind(address, target, slot);
    if (asked_is_left_alone(target) || encode_leads_to_quiet(target))
        return; // comes back without a call of anything that counts
    add_silent(function, behind, target, jumps ? EDGE_SILENT_JUMP : EDGE_SILENT_CALL);
}

// The other part of a function that a jump leads to; 0 if it is none.
static uintptr_t part_at(uintptr_t target)
{
    uintptr_t start = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    struct patch_function *other = functions_at(target);
    if (other && other->whole)
        functions_examine(other);
    // Or a whole function that is entered in the middle: libc's memory functions share their
    // bodies.
    if (other && (!other->whole || other->inside || target != other->start) &&
        !functions_plt_slot(other->module, target))
        start = other->start;
    loadmap_leave();
    patch_unlock();
    return start;
}

// Compilers put cold code elsewhere, with a table of its own: to walks it is a function.
static void add_parts(uint32_t function)
{
    uintptr_t start = encode_facts_of(function)->address, end = start;
    bool decoded = false;
    if (patch_lock())
        return;
    loadmap_enter();
    const struct patch_function *range = functions_at(start);
    if (range) {
        end = range->end;
        decoded = range->decoded;
    }
    loadmap_leave();
    patch_unlock();
    struct instruction in;
    for (uintptr_t pc = start; decoded && pc < end; pc += in.length) {
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return;
        if (in.flow != FLOW_JUMP && in.flow != FLOW_BRANCH)
            continue;
        const uintptr_t target = decode_target(&in, pc);
        const uintptr_t part = target >= start && target < end ? 0 : part_at(target);
        if (part && part != start)
            add_silent(function, pc + in.length, part, EDGE_SILENT_JUMP);
    }
}

static uint32_t site_hash(const struct site *site)
{
    return lookup_hash((uintptr_t)site, 0);
}

struct encode_site *encode_site_number(uint32_t number)
{
    return number < known_count ? series_at(&known, number) : NULL;
}

struct encode_site *encode_site_of(const struct site *site)
{
    uint32_t index;
    for (struct lookup_cursor at = lookup_start(&known_lookup, site_hash(site));
         lookup_next(&at, &index);) {
        struct encode_site *one = series_at(&known, index);
        if (one->site == site)
            return one;
    }
    return NULL;
}

static bool is_indirect(const struct site *site)
{
    return site->kind == SITE_CALL_INDIRECT || site->thunk;
}

bool encode_is_direct(const struct encode_site *site)
{
    return site->site->kind == SITE_CALL && !is_indirect(site->site);
}

static bool is_in(const struct module_ref *module, uintptr_t address)
{
    return address >= module->start && address < module->end;
}

bool encode_is_fixed(uintptr_t address)
{
    return is_in(&libc[0], address) || is_in(&libc[1], address);
}

static int32_t from_thread(const void *variable)
{
    return (int32_t)((intptr_t)variable - (intptr_t)__builtin_thread_pointer());
}

struct stub *encode_table_stub(struct encode_site *site)
{
    const struct stub_plan plan = {.kind = STUB_TABLE,
                                   .before = encode_before_table,
                                   .after = encode_after_table,
                                   .tls_number = from_thread(&encode_state.machine.id),
                                   .tls_table = from_thread(&encode_state.table),
                                   .index = site->number};
    if (!site->table && stub_make(site->site, &plan, &site->table))
        site->table = NULL;
    return site->table;
}

// A site that is not known yet, whatever it leads to.
static struct encode_site *add_site(struct site *site)
{
    if (site->form == FORM_TRAP || !series_reach(&known, &encode.pool, known_count) ||
        (encode.company && known_count >= ENCODE_SITES))
        return NULL;
    struct encode_site *added = series_at(&known, known_count);
    *added = (struct encode_site){.site = site,
                                  .number = known_count,
                                  .edge = GRAPH_NONE,
                                  .fixed = encode_is_fixed(site->address),
                                  .loaded = !is_permanent(site->address)};
    return added;
}

// A hook for a site; NULL: it stays as it is.
static struct stub *hook_for(struct site *site)
{
    const bool indirect = is_indirect(site) || site->kind == SITE_TAIL_INDIRECT;
    const struct stub_plan plan = {.kind = STUB_HOOK,
                                   .before = site->kind == SITE_TAIL_INDIRECT ? encode_before_tail
                                             : indirect                       ? encode_push_indirect
                                                                              : encode_push_direct,
                                   .after = site->kind == SITE_TAIL_INDIRECT ? NULL : encode_after,
                                   .push_target = indirect};
    struct encode_site *added = add_site(site);
    struct stub *stub;
    if (!added)
        return NULL;
    if (encode.company && encode_is_direct(added))
        stub = encode_table_stub(added);
    else if (stub_make(site, &plan, &added->hook))
        stub = NULL;
    else
        stub = added->hook;
    if (!stub || !lookup_add(&known_lookup, &encode.pool, site_hash(site), known_count))
        return NULL;
    encode_set_word(added, WORD_LONG);
    known_count++;
    return stub;
}

#define CHANGES 256
static struct site_change changes[CHANGES]; // of all functions that are looked at together
static uint32_t changed[CHANGES];           // whose they are
static size_t change_count;

// If that fails, calls are as silent as any that cannot be patched.
static void apply_changes(void)
{
    const enum company company = encode_is_alone() ? COMPANY_NONE : COMPANY_THREADS;
    if (change_count && (encode.frozen || sites_apply(changes, change_count, company)))
        for (size_t i = 0; i < change_count; i++)
            encode_facts_of(changed[i])->flags |= OPEN;
    change_count = 0;
}

static void change(uint32_t function, struct site *site, struct stub *stub)
{
    if (change_count == CHANGES)
        apply_changes();
    changed[change_count] = function;
    changes[change_count++] = (struct site_change){site, stub};
}

#define LEFT_MOST 16
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

static void add_sites(uint32_t function, const struct site_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        struct site *site = &list->site[i];
        const uintptr_t behind = site->address + site->length;
        const bool tail = site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
        const bool direct = !is_indirect(site) && site->kind != SITE_TAIL_INDIRECT;
        const uintptr_t target =
            direct ? site->target : target_behind(site->address, 0, site->slot);
        if (asked_is_left_alone(target))
            continue;
        if (is_left(target) || (direct && encode_leads_to_quiet(target)))
            continue;
        struct stub *stub = tail && target ? NULL : hook_for(site);
        if (tail && stub)
            encode_facts_of(function)->flags |= PUSHES | TAILS;
        else if (!stub)
            add_silent(function, behind, target, tail ? EDGE_SILENT_JUMP : EDGE_SILENT_CALL);
        if (!stub) {
            encode.counts->sites_skipped++;
            continue;
        }
        encode.counts->sites_patched++;
        change(function, site, stub);
    }
}

static void look_at(uint32_t function)
{
    struct site_list list = {0};
    const uintptr_t address = encode_facts_of(function)->address;
    stayed_count = 0;
    const bool stays =
        encode.frozen || (encode.company && encode_is_fixed(address)) || is_in(&unwinder, address);
    // Where nothing would be patched, nothing is missed.
    if (!is_here_to_stay(address) || sites_find(address, &list, &found) ||
        (stays && list.count + stayed_count > 0)) {
        encode_facts_of(function)->flags |= OPEN;
        return;
    }
    encode.counts->sites_skipped += stayed_count;
    if (stayed_count > STAYS_MOST)
        encode_facts_of(function)->flags |= OPEN;
    for (unsigned i = 0; i < stayed_count && i < STAYS_MOST; i++)
        add_stays(function, stayed[i].address, stayed[i].why);
    add_parts(function);
    add_sites(function, &list);
}

bool encode_look(uint32_t function)
{
    const uint32_t first_edge = encode.graph.edge_count;
    will_look_at(function);
    if (next_look == GRAPH_NONE)
        return false;
    while (next_look != GRAPH_NONE) {
        const uint32_t next = next_look;
        next_look = encode_facts_of(next)->next;
        look_at(next);
    }
    apply_changes();
    encode_spread(first_edge);
    return true;
}

uint32_t encode_meet(uintptr_t address)
{
    const uint32_t function = add_function(address);
    if (function != GRAPH_NONE)
        encode_look(function);
    return function;
}

uint32_t encode_edge(struct encode_site *site, uintptr_t target)
{
    struct graph *graph = &encode.graph;
    const bool direct = !is_indirect(site->site);
    if (direct && site->edge != GRAPH_NONE)
        return site->edge;
    // Exceptions are noticed where they are thrown, and where they land: all calls are followed
    // where there may be some.
    const bool eager = encode.throws[0] != 0;
    uint32_t callee = eager ? encode_meet(target) : add_function(target);
    uint32_t caller = add_function(site->site->function);
    if (callee == GRAPH_NONE || caller == GRAPH_NONE)
        return GRAPH_NONE;
    const place_t place = loadmap_place(site->site->address + site->site->length);
    site->watched = direct && encode_watches(target);
    uint32_t edge = graph_find_edge(graph, place, callee);
    if (edge == GRAPH_NONE) {
        edge = graph_add_edge(graph, place, caller, callee, direct ? EDGE_CALL : EDGE_INDIRECT);
        if (edge != GRAPH_NONE &&
            (!encode_may_number(edge) || site->watched || (!direct && encode.company)))
            graph_edge(graph, edge)->flags |= EDGE_UNENCODED;
    }
    if (edge == GRAPH_NONE)
        return edge;
    if (direct) {
        site->edge = edge;
        // New edges push, in whatever encoding.
        encode_set_word(site, site->watched ? WORD_LONG : WORD_PUSH | edge);
    } else if (!encode.company) {
        encode_know_target(site, target, edge);
    }
    return edge;
}

void encode_open_loaded(void)
{
    const struct graph *graph = &encode.graph;
    for (uint32_t i = 0; i < graph->function_count; i++)
        if (!is_permanent(encode_facts_of(i)->address))
            encode_facts_of(i)->flags |= OPEN;
    encode_spread(0);
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (!edge_is_silent(graph_edge(graph, i)) && !encode_may_number(i))
            graph_edge(graph, i)->flags |= EDGE_UNENCODED;
}

bool encode_tail(struct encode_site *site, uintptr_t target)
{
    const uint32_t caller = add_function(site->site->function);
    const uint32_t callee = caller == GRAPH_NONE ? caller : encode_meet(target);
    if (callee == GRAPH_NONE)
        return false;
    const uintptr_t behind = site->site->address + site->site->length;
    const uint32_t known = encode.graph.edge_count;
    add_silent(caller, behind, target, EDGE_SILENT_JUMP);
    const uint32_t edge = graph_find_edge(&encode.graph, loadmap_place(behind), callee);
    if (edge != GRAPH_NONE)
        encode_know_target(site, target, edge);
    return encode.graph.edge_count > known && encode_surprise(caller, callee);
}

void encode_count_graph(void)
{
    encode.counts->functions = encode.graph.function_count;
    encode.counts->edges = encode.graph.edge_count;
    encode.counts->max_id = encode.numbering.dictionary->max_id;
    encode.counts->bytes = encode.pool.mapped + sites_bytes();
}
