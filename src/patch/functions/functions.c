// SPDX-License-Identifier: MIT
#include "patch/functions/functions.h"
#include "patch/functions/function_map.h"
#include "patch/functions/modules.h"
#include "patch/functions/padding.h"
#include "patch/functions/unpatchable.h"
#include "patch/stubs/bump_allocator.h"
#include "patch/x86_64/decode.h"
#include "patch/x86_64/return_load.h"
#include "unwind/cfi.h"
#include <errno.h>
#include <string.h>

#define PAGE 4096

static struct address_index functions; // by start; written under the lock

static bool is_empty_row(const struct cfi_row *row)
{
    return !row->cfa_is_expression && row->cfa_register == ARCH_SP && row->cfa_offset == 8;
}

// A retpoline calls itself past a loop, puts a register in the place of that return address, and
// returns: one more than the register's number; 0: it is none.
static uint8_t find_thunk(const struct patch_function *function)
{
    // call over a loop; ...; mov %reg,(%rsp); ret
    struct instruction in;
    const struct module_ref *ref = &function->module->ref;
    if (function->start < ref->code_start || function->end > ref->code_end ||
        function->end - function->start > 64 || *(const unsigned char *)function->start != 0xe8 ||
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

static bool is_in_got(const struct patch_module *module, unsigned part, uintptr_t slot)
{
    return slot >= module->got[part].start && slot < module->got[part].end;
}

bool functions_is_bound(const struct patch_module *module, uintptr_t slot)
{
    return slot % 8 == 0 && (is_in_got(module, 0, slot) || is_in_got(module, 1, slot));
}

// endbr64; bnd jmp *slot(%rip)
#define LANDING_PAD UINT32_C(0xfa1e0ff3)
#define BND 0xf2

static uintptr_t find_slot(const struct patch_module *module, uintptr_t address)
{
    enum { OPCODE = 2, JUMP = 6 };
    const unsigned char *code = (const unsigned char *)address;
    const unsigned char *end = (const unsigned char *)module->ref.code_end;
    uint32_t pad;
    int32_t distance;
    if (address < module->ref.code_start || code >= end || end - code < JUMP)
        return 0;
    memcpy(&pad, code, sizeof pad);
    code += pad == LANDING_PAD ? sizeof pad : 0;
    code += *code == BND;
    if (end - code < JUMP || code[0] != 0xff || code[1] != 0x25)
        return 0;
    memcpy(&distance, code + OPCODE, sizeof distance);
    const uintptr_t slot = (uintptr_t)code + JUMP + (uintptr_t)(intptr_t)distance;
    return functions_is_bound(module, slot) ? slot : 0;
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
    function = bump_take(sizeof *function);
    if (!function || index_put(&functions, bounds.start, function))
        return NULL;
    function->start = bounds.start;
    function->end = bounds.end;
    function->module = module;
    function->examined = bounds.start;
    function->whole = is_empty_row(&row) && !bounds.signal;
    function->named = unpatchable_is(bounds.start);
    function->thunk = find_thunk(function);
    function->slot = find_slot(module, bounds.start);
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

// A jump that leaves the function.
static void note_jump(struct patch_function *function, uintptr_t target)
{
    function->leaves = true;
    if (function->inside)
        return;
    const struct patch_function *other = functions_at(target);
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
    const bool jumps = in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH;
    const uintptr_t target = decode_target(in, pc);
    const bool inside = target >= function->start && target < function->end;
    if (jumps && inside)
        return;
    if (jumps)
        note_jump(function, target);
    if (exits->anywhere)
        return;
    if (in->flow == FLOW_CALL_INDIRECT || (in->flow == FLOW_ODD && !system_call) ||
        (in->flow == FLOW_CALL && inside)) // the last calls itself, or reads the pc
        exits->anywhere = true;
    else if (in->flow == FLOW_JUMP_INDIRECT)
        add_exit(exits, pc, false, true);
    else if (in->flow == FLOW_CALL || jumps)
        add_exit(exits, target, in->flow == FLOW_CALL, false);
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

void functions_examine_one(struct patch_function *function, uintptr_t pc,
                           const struct instruction *in)
{
    if (pc < function->examined)
        return;
    if (in->flow != FLOW_NEXT)
        note_exit(function, in, pc);
    function->goes_on |= pc > function->examined; // past plain ones
    if (!decode_is_padding(in))
        function->goes_on = in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH;
    function->examined = pc + in->length;
    if (function->goes_on && function->examined == function->end)
        note_fall(function);
}

void functions_examine_no_more(struct patch_function *function)
{
    function->exits.anywhere = true;
    function->examined = function->end;
}

static void examine_next(struct patch_function *function)
{
    struct instruction in;
    uintptr_t pc = function->examined;
    for (unsigned length = 1; length && function->end - pc > INSTRUCTION_MOST; pc += length)
        length = decode_plain_length((const unsigned char *)pc);
    if (decode((const unsigned char *)pc, function->end - pc, &in))
        functions_examine_one(function, pc, &in);
    else
        functions_examine_no_more(function);
}

void functions_examine(struct patch_function *function)
{
    while (function->examined < function->end)
        examine_next(function);
}

bool functions_examine_exit(struct patch_function *function, unsigned exit)
{
    while (function->exits.count <= exit && function->examined < function->end &&
           !function->exits.anywhere)
        examine_next(function);
    return function->exits.count > exit;
}

static bool is_short_jump(unsigned char opcode)
{
    return (opcode & 0xf0) == 0x70 || opcode == 0xeb || (opcode & 0xfc) == 0xe0;
}

// Whether bytes anywhere in the code could be a jump of two bytes into the other one, or four of
// them the distance of a longer one.
static bool may_lead_to(const struct patch_function *function, const struct patch_function *other)
{
    const uintptr_t middle = other->start + 1, bytes = other->end - middle;
    const bool near =
        function->start < other->end + INT8_MAX + 1 && other->start < function->end + INT8_MAX + 1;
    for (uintptr_t at = function->start; near && at + 2 <= function->end; at++) {
        const unsigned char *code = (const unsigned char *)at;
        const uintptr_t distance = (uintptr_t)(intptr_t)(int8_t)code[1];
        if (at + 2 + distance - middle < bytes && is_short_jump(*code))
            return true;
    }
    for (uintptr_t at = function->start; at + 4 <= function->end; at++) {
        int32_t distance;
        memcpy(&distance, (const void *)at, sizeof distance);
        if (at + 4 + (uintptr_t)(intptr_t)distance - middle < bytes)
            return true;
    }
    return false;
}

bool functions_is_part_of(struct patch_function *function, const struct patch_function *whole)
{
    if (function->examined < function->end && !may_lead_to(function, whole))
        return false;
    functions_examine(function);
    return function->inside == whole->start;
}

// Instruction by instruction, which takes long.
static bool decoded_reads_return(const struct patch_function *function)
{
    struct return_search search = return_search_begin(&function->module->ref, function->whole);
    struct instruction in;
    for (uintptr_t pc = function->start; pc < function->end; pc += in.length) {
        if (!decode((const unsigned char *)pc, function->end - pc, &in))
            return false;
        if (return_search_step(&search, pc, &in))
            return true;
    }
    return false;
}

// Whether it loads its own return address.
static bool reads_return(struct patch_function *function)
{
    if (function->reads_return == RETURN_NOT_KNOWN) {
        const bool reads =
            return_may_be_loaded(&function->module->ref, function->start, SIZE_MAX) &&
            decoded_reads_return(function);
        function->reads_return = reads ? RETURN_READ : RETURN_NOT_READ;
    }
    return function->reads_return == RETURN_READ;
}

bool functions_must_stay(uintptr_t address, enum site_stays *why)
{
    struct patch_function *function = functions_at(address);
    const bool begins = function && function->start == address;
    *why = STAYS_NAMED;
    if (begins ? function->named : unpatchable_is(address))
        return true;
    *why = STAYS_READS;
    return begins && reads_return(function);
}

// ---- procedure linkage

uintptr_t functions_plt_slot(const struct patch_module *module, uintptr_t address)
{
    const struct patch_function *function = index_find(&functions, address);
    return function ? function->slot : find_slot(module, address);
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

// A question is a system call. Of the GOT, which the program reads at every call through it, one is
// enough for a page.
static bool is_readable(uintptr_t slot)
{
    struct patch_module *module = functions_module(slot);
    const uintptr_t page = slot / PAGE;
    for (unsigned i = 0; module && i < 2; i++) {
        if (!is_in_got(module, i, slot))
            continue;
        if (module->readable[i] != page && loadmap_readable(slot))
            module->readable[i] = page;
        return module->readable[i] == page;
    }
    return loadmap_readable(slot);
}

uintptr_t functions_slot_target(uintptr_t slot)
{
    if (slot % 8 || !is_readable(slot))
        return 0;
    const uintptr_t target = __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
    struct patch_function *function = target ? functions_at(target) : NULL;
    return function && function->start == target ? target : 0;
}

static void forget_module(struct patch_module *module, void (*each)(struct site *site))
{
    for (struct patch_function *function = module->functions, *next; function; function = next) {
        next = function->next;
        for (unsigned i = 0; i < function->sites.count; i++)
            each(&function->sites.site[i]);
        bump_give_back(function->sites.site, function->sites.count * sizeof(struct site));
        padding_forget(function->end);
        index_put(&functions, function->start, NULL);
        bump_give_back(function, sizeof *function);
    }
    modules_free(module);
}

void functions_forget(uintptr_t start, uintptr_t end, void (*each)(struct site *site))
{
    struct patch_module *module;
    function_map_forget();
    while ((module = modules_take_out(start, end)))
        forget_module(module, each);
}
