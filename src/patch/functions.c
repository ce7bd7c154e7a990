// SPDX-License-Identifier: MIT
#include "patch/functions.h"
#include "patch/decode.h"
#include "patch/heap.h"
#include "patch/modules.h"
#include <errno.h>
#include <string.h>

static struct address_index functions; // by start; written under the lock

static bool is_empty_row(const struct cfi_row *row)
{
    return !row->cfa_is_expression && row->cfa_register == ARCH_SP && row->cfa_offset == 8;
}

struct patch_function *functions_at(uintptr_t pc)
{
    struct patch_function *function = index_find(&functions, pc);
    if (function)
        return function;
    struct patch_module *module = functions_module(pc);
    struct cfi_function bounds;
    struct cfi_row row;
    if (!module || cfi_find_caller(&module->ref, pc, &bounds, &row) != CFI_OK)
        return NULL;
    if ((function = index_find(&functions, bounds.start)))
        return function;
    if (pc != bounds.start && cfi_find_caller(&module->ref, bounds.start, &bounds, &row) != CFI_OK)
        return NULL;
    function = heap_take(sizeof *function);
    if (!function || index_put(&functions, bounds.start, function))
        return NULL;
    function->start = bounds.start;
    function->end = bounds.end;
    function->module = module;
    function->whole = is_empty_row(&row) && !bounds.signal;
    function->next = module->functions;
    module->functions = function;
    return function;
}

bool functions_stack_is_empty(const struct patch_function *function, uintptr_t pc)
{
    struct cfi_function bounds;
    struct cfi_row row;
    return cfi_find_caller(&function->module->ref, pc, &bounds, &row) == CFI_OK &&
           is_empty_row(&row);
}

static void note_jump(struct patch_function *function, const struct instruction *in, uintptr_t pc)
{
    if (in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH)
        return;
    const uintptr_t target = decode_target(in, pc);
    if (target >= function->start && target < function->end)
        return;
    function->leaves = true;
    if (function->inside)
        return;
    struct patch_function *other = functions_at(target);
    if (other && other != function && other->start != target)
        function->inside = other->start;
}

static void add_exit(struct patch_exits *exits, uintptr_t to, bool call, bool through)
{
    for (unsigned i = 0; i < exits->count; i++)
        if (exits->to[i] == to && !(exits->calls >> i & 1) == !call)
            return;
    if (exits->count == EXITS_MOST) {
        exits->anywhere = true;
        return;
    }
    exits->calls |= (uint8_t)(call << exits->count);
    exits->through |= (uint8_t)(through << exits->count);
    exits->to[exits->count++] = to;
}

static void note_exit(struct patch_function *function, const struct instruction *in, uintptr_t pc)
{
    struct patch_exits *exits = &function->exits;
    const bool system_call = in->flow == FLOW_ODD && in->map == MAP_0F && in->opcode == 0x05;
    if (exits->anywhere || in->flow == FLOW_NEXT)
        return;
    if (in->flow == FLOW_CALL_INDIRECT || (in->flow == FLOW_ODD && !system_call)) {
        exits->anywhere = true;
    } else if (in->flow == FLOW_JUMP_INDIRECT) {
        add_exit(exits, pc, false, true);
    } else if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) {
        const uintptr_t target = decode_target(in, pc);
        const bool inside = target >= function->start && target < function->end;
        if (in->flow == FLOW_CALL && inside)
            exits->anywhere = true; // calls itself, or reads the pc
        else if (!inside)
            add_exit(exits, target, in->flow == FLOW_CALL, false);
    }
}

// Assemblers' functions may share a body: strcasecmp() loads the locale, and strcasecmp_l() begins
// behind it. No-ops in between are executed.
static void note_fall(struct patch_function *function)
{
    const uintptr_t end = function->module->ref.code_end;
    uintptr_t pc = function->end;
    struct instruction in;
    while (pc < end && decode((const unsigned char *)pc, end - pc, &in) && decode_is_padding(&in))
        pc += in.length;
    const struct patch_function *next = pc < end ? functions_at(pc) : NULL;
    if (!next || next->start != pc)
        return;
    function->falls_into = pc;
    add_exit(&function->exits, pc, false, false);
}

struct examination functions_examine_from_start(struct patch_function *function)
{
    struct examination examination = {
        .function = function->examined ? NULL : function,
        .search = return_search_begin(&function->module->ref, function->whole),
    };
    if (!function->examined)
        function->exits.anywhere = false;
    function->examined = true;
    return examination;
}

void functions_examine_one(struct examination *examination, uintptr_t pc,
                           const struct instruction *in)
{
    struct patch_function *function = examination->function;
    if (!function)
        return;
    function->reads_return |= return_search_step(&examination->search, pc, in);
    note_jump(function, in, pc);
    note_exit(function, in, pc);
    if (!decode_is_padding(in))
        examination->goes_on = in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH;
    if (examination->goes_on && pc + in->length == function->end)
        note_fall(function);
}

void functions_examine_no_more(const struct examination *examination)
{
    if (examination->function)
        examination->function->exits.anywhere = true;
}

void functions_examine(struct patch_function *function)
{
    struct examination examination = functions_examine_from_start(function);
    struct instruction in;
    for (uintptr_t pc = function->start; examination.function && pc < function->end;
         pc += in.length) {
        if (!decode((const unsigned char *)pc, function->end - pc, &in)) {
            functions_examine_no_more(&examination);
            return;
        }
        functions_examine_one(&examination, pc, &in);
    }
}

bool functions_must_stay(uintptr_t address, enum site_stays *why)
{
    *why = STAYS_NAMED;
    if (modules_is_named(address))
        return true;
    *why = STAYS_READS;
    struct patch_function *function = functions_at(address);
    if (!function || function->start != address)
        return false;
    functions_examine(function);
    return function->reads_return;
}

// ---- procedure linkage

bool functions_is_bound(const struct patch_module *module, uintptr_t slot)
{
    for (unsigned i = 0; i < 2; i++)
        if (slot % 8 == 0 && slot >= module->got[i].start && slot < module->got[i].end)
            return true;
    return false;
}

uintptr_t functions_plt_slot(const struct patch_module *module, uintptr_t address)
{
    struct instruction in;
    const uintptr_t end = module->ref.code_end;
    if (address < module->ref.code_start || address >= end ||
        !decode((const unsigned char *)address, end - address, &in))
        return 0;
    if (decode_is_landing_pad(&in)) {
        address += in.length;
        if (!decode((const unsigned char *)address, end - address, &in))
            return 0;
    }
    const uintptr_t slot = address + in.length + (uintptr_t)(intptr_t)in.disp;
    return in.flow == FLOW_JUMP_INDIRECT && in.rip_relative && functions_is_bound(module, slot)
               ? slot
               : 0;
}

bool functions_is_linkage(const struct patch_function *function)
{
    const size_t bytes = function->end - function->start;
    struct instruction in;
    if (functions_plt_slot(function->module, function->start))
        return true;
    // The first entry of a lazy one pushes a word of the GOT and jumps through the next.
    return decode((const unsigned char *)function->start, bytes, &in) && in.opcode == 0xff &&
           (in.reg & 7) == 6 && in.rip_relative &&
           functions_plt_slot(function->module, function->start + in.length);
}

uintptr_t functions_slot_target(uintptr_t slot)
{
    if (slot % 8 || !loadmap_readable(slot))
        return 0;
    const uintptr_t target = __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
    struct patch_function *function = target ? functions_at(target) : NULL;
    return function && function->start == target ? target : 0;
}

uint8_t functions_thunk(const struct patch_function *function)
{
    // call over a loop; ...; mov %reg,(%rsp); ret
    struct instruction in;
    if (function->end - function->start > 64 ||
        !decode((const unsigned char *)function->start, function->end - function->start, &in) ||
        in.flow != FLOW_CALL)
        return 0;
    const uintptr_t inner = decode_target(&in, function->start);
    if (inner <= function->start || inner >= function->end ||
        !decode((const unsigned char *)inner, function->end - inner, &in))
        return 0;
    const bool stores = in.map == MAP_ONE && !in.vector && in.opcode == 0x89 && in.rex & 8 &&
                        in.mod == 0 && in.base == REGISTER_STACK && in.index == NO_REGISTER;
    return stores ? (uint8_t)(in.reg + 1) : 0;
}

static void forget_module(struct patch_module *module, void (*each)(struct site *site))
{
    for (const struct patch_function *function = module->functions; function;
         function = function->next) {
        for (unsigned i = 0; i < function->sites.count; i++)
            each(&function->sites.site[i]);
        index_put(&functions, function->start, NULL);
    }
}

void functions_forget(uintptr_t start, uintptr_t end, void (*each)(struct site *site))
{
    struct patch_module *module;
    while ((module = modules_take_out(start, end)))
        forget_module(module, each);
}

void functions_forget_later(void (*each)(struct site *site))
{
    struct patch_module *module;
    while ((module = modules_take_out_later()))
        forget_module(module, each);
}
