// SPDX-License-Identifier: MIT
#include "patch/functions/scan.h"
#include "base/gc_hidden.h"
#include "patch/functions/displace.h"
#include "patch/functions/function_map.h"
#include "patch/functions/padding.h"
#include "patch/stubs/bump_allocator.h"
#include "patch/stubs/stub.h"
#include "patch/x86_64/decode.h"
#include "patch/x86_64/relocate.h"
#include "patch/x86_64/table_jump.h"
#include <errno.h>
#include <string.h>

// The last of the bytes that a jump replaces at which another instruction can begin, and how far
// down from it a distance leads that ends in a trap.
#define LAST_START (1u << (JUMP_BYTES - 1))
#define TRAP_REACH (UINT64_C(1) << 30)

struct code_scan {
    struct patch_function *function;
    struct site_counts *counts;
    unsigned count;
};

// The sites of the function that is being decoded, in number at most.
#define SITES_MOST 8192
static struct site found[SITES_MOST] GC_HIDDEN;

static void count_stays(struct code_scan *scan, uintptr_t pc, enum site_stays why)
{
    scan->counts->stays[why]++;
    if (scan->counts->stayed)
        scan->counts->stayed(pc, why);
}

static bool is_tail(const struct site *site)
{
    return site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
}

// Whether a jump to the target may be a site of its own. A jump to the middle of another part of
// the function is none.
static bool may_be_site(const struct patch_function *function, uintptr_t target)
{
    if (target >= function->start && target < function->end)
        return false;
    const struct patch_function *other = functions_at(target);
    return !other || other->start == target || functions_plt_slot(function->module, target);
}

// Neighbours behind it: as many as it takes. False: they cannot move, or code jumps there.
static bool borrow_behind(const struct patch_function *function, struct site *site)
{
    struct instruction in;
    bool over = is_tail(site); // nothing is executed behind it, unless code jumps there
    while (site->span < JUMP_BYTES) {
        const uintptr_t pc = site->address + site->span;
        if (pc >= function->end || !decode(code_at(pc), function->end - pc, &in) ||
            function_map_is_reached(function, pc, in.length) ||
            (over ? !decode_is_padding(&in) : !relocate_can(&in)))
            return false;
        if (!over)
            site->starts |= (uint8_t)(1u << site->span);
        if (in.flow == FLOW_JUMP && may_be_site(function, decode_target(&in, pc)))
            return false;
        over |= in.flow == FLOW_JUMP || in.flow == FLOW_RETURN;
        site->span += in.length;
    }
    return true;
}

// Where it moves, all of what is before the call must find the stack pointer as it was.
static bool can_lead(const struct instruction *in)
{
    return in->flow == FLOW_NEXT && relocate_can(in) && !relocate_touches_stack(in);
}

#define LEAD_MOST 12 // bytes

// Neighbours before it, from `floor` on, where the site before it ends. Takes as few as will do,
// and one more if the jump would else end in a byte that no distance within reach can have (`high`:
// any).
static bool borrow_before(const struct patch_function *function, struct site *site, uintptr_t floor,
                          bool high)
{
    struct instruction in;
    uintptr_t start = site->address;
    if (function_map_is_reached(function, start, site->length))
        return false;
    for (;;) {
        const uintptr_t behind = start;
        do {
            if (start <= floor || site->address - start >= LEAD_MOST)
                return false;
            start--;
        } while (!function_map_begins(function, start));
        if (site->address - start > LEAD_MOST ||
            !decode(code_at(start), function->end - start, &in) || !can_lead(&in) ||
            function_map_is_reached(function, start + 1, behind - start - 1))
            return false;
        site->lead = (uint8_t)(site->address - start);
        site->span = site->lead + site->length;
        site->starts = 0;
        for (unsigned i = 1; i < JUMP_BYTES && i <= site->lead; i++)
            if (function_map_begins(function, start + i))
                site->starts |= (uint8_t)(1u << i);
        if (site->span >= JUMP_BYTES && (high || !(site->starts & LAST_START)))
            return true;
        if (function_map_is_reached(function, start, 1))
            return false; // in the middle of a longer one
    }
}

// Whether what follows the neighbours behind a site is another short one, which may need them.
static bool needs_before(const struct patch_function *function, const struct site *site)
{
    struct instruction in;
    const uintptr_t pc = site->address + site->span;
    return pc < function->end && decode(code_at(pc), function->end - pc, &in) &&
           in.length < JUMP_BYTES &&
           (in.flow == FLOW_CALL_INDIRECT || in.flow == FLOW_JUMP_INDIRECT);
}

// How many bytes the jump over a short site covers, and whether what is there can move.
static void choose_neighbours(const struct code_scan *scan, struct site *site)
{
    const struct patch_function *function = scan->function;
    // Threads may be at, or return to, an instruction among the bytes of the jump: a trap must be
    // there, so the last byte of the distance can be one only if the jump may go down so far.
    const bool high = function->module->ref.start > TRAP_REACH;
    const struct site alone = *site;
    const struct site *last = scan->count > 1 ? site - 1 : NULL;
    const uintptr_t floor = last ? site_start(last) + last->span : function->start;
    struct site before = alone, behind = alone;
    const bool can_before = borrow_before(function, &before, floor, high);
    const bool can_behind =
        borrow_behind(function, &behind) && !(can_before && needs_before(function, &behind));
    if (can_behind && behind.starts == 0) {
        *site = behind;
        site->form = FORM_JUMP;
    } else if (can_before && before.starts == 0) {
        *site = before;
        site->form = FORM_JUMP;
    } else if (can_behind && (high || !(behind.starts & LAST_START))) {
        *site = behind;
        site->form = FORM_BORROWED;
    } else if (can_before) {
        *site = before;
        site->form = FORM_BORROWED;
    } else {
        site->form = FORM_NEAR;
    }
}

// How a short site is led to its stub.
static void find_room(const struct code_scan *scan, struct site *site)
{
    const struct site alone = *site;
    choose_neighbours(scan, site);
    // Now, and not when it is needed: without an island, a trap would be a signal at each call, and
    // kill a handler of ours that calls patched code.
    if (site->form == FORM_BORROWED) {
        const struct module_ref *module = &scan->function->module->ref;
        // A trap wherever an instruction began; the distance follows the jump's first byte.
        const struct island_shape shape = {site->starts >> 1 & 0xf, UINT32_C(0xcccccccc)};
        const uintptr_t end = site_start(site) + JUMP_BYTES;
        site->room = (uintptr_t)island_take(end, &shape, module->start, module->end);
        if (!site->room)
            *site = alone;
        site->form = site->room ? FORM_BORROWED : FORM_NEAR;
    }
    if (site->form == FORM_NEAR) {
        site->room = padding_take(site->address + SHORT_JUMP_BYTES);
        site->form = site->room ? FORM_NEAR : FORM_TRAP;
    }
}

static void add_site(struct code_scan *scan, const struct site *draft, uintptr_t pc,
                     const struct instruction *in)
{
    if (scan->count == SITES_MOST)
        return;
    struct site *site = &found[scan->count++];
    *site = *draft;
    site->address = pc;
    site->function = scan->function->start;
    site->length = site->span = in->length;
    site->form = FORM_JUMP;
    if (in->length < JUMP_BYTES)
        find_room(scan, site);
    const size_t room = scan->function->end - site_start(site);
    memcpy(site->original, code_at(site_start(site)), room < JUMP_BYTES ? room : JUMP_BYTES);
}

// The function that a direct call or jump leads to, if it may go through a stub. False: *why not.
static bool resolve(const struct code_scan *scan, uintptr_t target, struct site *draft,
                    enum site_stays *why)
{
    const struct patch_module *module = scan->function->module;
    draft->slot = functions_plt_slot(module, target);
    if (draft->slot) {
        *why = STAYS_NAMED;
        draft->target = functions_slot_target(draft->slot);
        return !functions_slot_must_stay(module, draft->slot) &&
               (!draft->target || !functions_must_stay(draft->target, why));
    }
    struct patch_function *callee = functions_at(target);
    *why = STAYS_UNKNOWN;
    if (!callee)
        return false;
    *why = STAYS_MIDDLE;
    if (callee->start != target || !callee->whole)
        return false;
    draft->target = target;
    draft->thunk = callee->thunk;
    return !functions_must_stay(target, why);
}

static void take_direct_call(struct code_scan *scan, uintptr_t pc, const struct instruction *in)
{
    struct site draft = {.kind = SITE_CALL};
    enum site_stays why;
    // A bnd prefix has no meaning any more.
    if (in->prefixes & ~PREFIX_F2 || in->rex)
        count_stays(scan, pc, STAYS_PREFIXED);
    else if (!resolve(scan, decode_target(in, pc), &draft, &why))
        count_stays(scan, pc, why);
    else
        add_site(scan, &draft, pc, in);
}

// Prefixes that an indirect branch may carry: bnd, notrack, and those that are ignored.
static bool is_padded(const struct instruction *in)
{
    return in->prefixes & (PREFIX_OPERAND | PREFIX_ADDRESS | PREFIX_FS_GS | PREFIX_LOCK);
}

static bool resolve_slot(const struct code_scan *scan, uintptr_t pc, const struct instruction *in,
                         struct site *draft, enum site_stays *why)
{
    const struct patch_module *module = scan->function->module;
    if (!in->rip_relative)
        return true;
    const uintptr_t slot = pc + in->length + (uintptr_t)(intptr_t)in->disp;
    draft->slot = functions_is_bound(module, slot) ? slot : 0;
    *why = STAYS_NAMED;
    if (functions_slot_must_stay(module, slot))
        return false;
    const uintptr_t target = functions_slot_target(slot);
    return !target || !functions_must_stay(target, why);
}

static void take_indirect(struct code_scan *scan, uintptr_t pc, const struct instruction *in,
                          enum site_kind kind)
{
    struct site draft = {.kind = (uint8_t)kind};
    enum site_stays why;
    if (is_padded(in))
        count_stays(scan, pc, STAYS_PREFIXED);
    else if (!resolve_slot(scan, pc, in, &draft, &why))
        count_stays(scan, pc, why);
    else
        add_site(scan, &draft, pc, in);
}

// A jump that leaves the function: a tail call, or one to another part of it.
static void take_jump(struct code_scan *scan, uintptr_t pc, const struct instruction *in)
{
    struct patch_function *function = scan->function;
    const uintptr_t target = decode_target(in, pc);
    if (target >= function->start && target < function->end)
        return;
    struct site draft = {.kind = SITE_TAIL};
    enum site_stays why = STAYS_MIDDLE;
    bool leads = resolve(scan, target, &draft, &why);
    struct patch_function *other = draft.slot ? NULL : functions_at(target);
    // Hot and cold parts of one function jump into each other.
    if (leads && (!functions_stack_is_empty(function, pc) ||
                  (other && (functions_is_part_of(function, other) ||
                             functions_is_part_of(other, function))))) {
        leads = false;
        why = STAYS_MIDDLE;
    }
    if (leads && in->flow == FLOW_BRANCH) {
        leads = false;
        why = STAYS_CONDITIONAL;
    } else if (leads && in->length < JUMP_BYTES) {
        leads = false;
        why = STAYS_SHORT;
    } else if (leads && in->length > JUMP_BYTES) {
        leads = !(in->prefixes & ~PREFIX_F2);
        why = STAYS_PREFIXED;
    }
    if (leads)
        add_site(scan, &draft, pc, in);
    else if (why != STAYS_MIDDLE) // those go to another part of the same function: no calls
        count_stays(scan, pc, why);
}

static bool is_tail_jump(const struct patch_function *function, uintptr_t pc,
                         const struct instruction *in)
{
    if (!functions_stack_is_empty(function, pc))
        return false;
    const struct jump_trail trail = function_map_trail_to(function, pc);
    return trail_leaves(&trail, in);
}

static void scan_pass(struct code_scan *scan)
{
    const struct patch_function *function = scan->function;
    struct instruction in;
    for (uintptr_t pc = function->start; (pc = function_map_way_out(function, pc)); pc++) {
        decode(code_at(pc), function->end - pc, &in);
        switch (in.flow) {
        case FLOW_CALL:
            take_direct_call(scan, pc, &in);
            break;
        case FLOW_CALL_INDIRECT:
            take_indirect(scan, pc, &in, SITE_CALL_INDIRECT);
            break;
        case FLOW_JUMP:
        case FLOW_BRANCH:
            take_jump(scan, pc, &in);
            break;
        case FLOW_JUMP_INDIRECT:
            if (is_tail_jump(function, pc, &in))
                take_indirect(scan, pc, &in, SITE_TAIL_INDIRECT);
            else
                count_stays(scan, pc, STAYS_TABLE);
            break;
        }
    }
}

// ---- what makes room for sites that have none

// Code this far from a site cannot matter to it.
#define NEIGHBOURHOOD 512

// True if the site, or what makes room for it, has one of the bytes.
static bool has_byte(const struct site *site, uintptr_t start, uintptr_t end)
{
    const struct displacement *other = site->displacement;
    return (site_start(site) < end && start < site_start(site) + site->span) ||
           (other && other->victim < end && start < other->victim + other->length);
}

static bool is_taken(const struct code_scan *scan, unsigned number, uintptr_t start, uintptr_t end)
{
    const uintptr_t address = found[number].address;
    for (unsigned i = number; i-- > 0 && address - found[i].address < NEIGHBOURHOOD;)
        if (has_byte(&found[i], start, end))
            return true;
    for (unsigned i = number; i < scan->count && found[i].address - address < NEIGHBOURHOOD; i++)
        if (has_byte(&found[i], start, end))
            return true;
    return false;
}

static bool leaves(const struct patch_function *function, uintptr_t pc,
                   const struct instruction *in)
{
    const uintptr_t target = decode_target(in, pc);
    return in->flow == FLOW_BRANCH && (target < function->start || target >= function->end);
}

// The longest will do best: its jumps have most places to go to.
static struct displacement find_victim(const struct code_scan *scan, unsigned number)
{
    const struct patch_function *function = scan->function;
    const uintptr_t behind = found[number].address + SHORT_JUMP_BYTES;
    const uintptr_t low = behind + INT8_MIN, high = behind + INT8_MAX;
    struct displacement best = {0};
    // Programs that are prepared for tracing have their hooks at the start.
    uintptr_t pc = function->start + INSTRUCTION_MOST;
    if (pc < low - JUMP_BYTES)
        pc = low - JUMP_BYTES;
    for (; pc < function->end && pc <= high; pc++) {
        struct instruction in;
        if (!function_map_begins(function, pc) || !decode(code_at(pc), function->end - pc, &in) ||
            in.length <= best.length || !displace_can(&in) || leaves(function, pc, &in) ||
            function_map_is_reached(function, pc + 1, in.length - 1u) ||
            is_taken(scan, number, pc, pc + in.length))
            continue;
        const unsigned inside = displace_how_far(in.length);
        if (pc + inside >= low && pc + inside <= high)
            best =
                (struct displacement){.victim = pc, .length = in.length, .inside = (uint8_t)inside};
    }
    return best;
}

// Only now, since each site is to find its neighbours in their places.
static void find_victims(const struct code_scan *scan)
{
    for (unsigned i = 0; i < scan->count; i++) {
        struct site *site = &found[i];
        const struct displacement draft =
            site->form == FORM_TRAP ? find_victim(scan, i) : (struct displacement){0};
        struct displacement *displacement = draft.victim ? bump_take(sizeof *displacement) : NULL;
        if (!displacement)
            continue;
        *displacement = draft;
        site->displacement = displacement;
    }
}

// The sites as they will be, where they will be.
static void finish_sites(const struct code_scan *scan, struct site *site)
{
    const struct module_ref *module = &scan->function->module->ref;
    for (unsigned i = 0; i < scan->count; i++) {
        if (site[i].displacement && displace_prepare(&site[i], module->start, module->end))
            site[i].form = FORM_DISPLACED;
        scan->counts->sites[site[i].kind]++;
        scan->counts->forms[site[i].form]++;
    }
}

int scan_function(struct patch_function *function, struct site_counts *counts)
{
    struct code_scan scan = {.function = function, .counts = counts};
    counts->functions++;
    function->searched = true;
    if (functions_is_linkage(function))
        return 0;
    if (!function_map_of(function)) {
        count_stays(&scan, function->start, STAYS_UNDECODED);
        return 0;
    }
    function->decoded = true;
    scan_pass(&scan);
    find_victims(&scan);
    if (scan.count == 0)
        return 0;
    const size_t bytes = scan.count * sizeof *found;
    struct site *site = bump_take(bytes);
    if (!site)
        return -ENOMEM;
    memcpy(site, found, bytes);
    finish_sites(&scan, site);
    function->sites = (struct site_list){site, scan.count};
    return 0;
}
