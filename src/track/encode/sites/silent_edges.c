// SPDX-License-Identifier: MIT
// Where a function may go without a site of ours: what cannot be patched, and parts of it that lie
// elsewhere.

#include "track/encode/sites/silent_edges.h"
#include "loadmap/loadmap.h"
#include "patch/functions.h"
#include "patch/lock.h"
#include "patch/x86_64/decode.h"
#include "patch/x86_64/jump_table.h"
#include "track/context_id/context_id.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/leaf_functions.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/exceptions.h"

uintptr_t encode_resolve_target(uintptr_t from, uintptr_t target, uintptr_t slot)
{
    uintptr_t result = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    struct patch_module *module = functions_module(from);
    if (!slot && module && target)
        slot = functions_plt_slot(module, target);
    if (slot)
        result = module && functions_is_bound(module, slot) ? functions_slot_target(slot) : 0;
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
    encode_add_silent(parts->function, parts->behind, part, EDGE_SILENT_JUMP);
}

void encode_add_unpatched(uint32_t function, uintptr_t address, enum site_stays why)
{
    struct instruction in;
    // Of those for thread-local storage, nothing comes back to code of ours.
    if (why == STAYS_PREFIXED)
        return;
    if (why == STAYS_TABLE) {
        struct switch_parts parts = {function, address + 1};
        if (!jump_table_stays(address, add_switch_part, &parts) && stack_is_empty(address))
            encode_function_of(function)->flags |= FUNCTION_OPEN;
        return;
    }
    if (why == STAYS_UNDECODED || !decode((const unsigned char *)address, INSTRUCTION_MOST, &in)) {
        encode_function_of(function)->flags |= FUNCTION_OPEN;
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
    target = encode_resolve_target(address, target, slot);
    if (context_id_is_left_alone(target) || encode_calls_leaf(target))
        return; // comes back without a call of anything that counts
    if (encode_is_unwind_resume(target))
        return; // never comes back, and no number means anything meanwhile
    encode_add_silent(function, behind, target, jumps ? EDGE_SILENT_JUMP : EDGE_SILENT_CALL);
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

void encode_add_function_parts(uint32_t function)
{
    uintptr_t start = encode_function_of(function)->address, end = start, next = 0;
    bool decoded = false;
    if (patch_lock())
        return;
    loadmap_enter();
    const struct patch_function *range = functions_at(start);
    if (range) {
        end = range->end;
        decoded = range->decoded && range->leaves;
        next = range->falls_into;
    }
    loadmap_leave();
    patch_unlock();
    if (next)
        encode_add_silent(function, end, next, EDGE_SILENT_JUMP);
    struct instruction in;
    for (uintptr_t pc = start; decoded && pc < end; pc += in.length) {
        for (unsigned length = 1; length && end - pc > INSTRUCTION_MOST; pc += length)
            length = decode_plain_length((const unsigned char *)pc);
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return;
        if (in.flow != FLOW_JUMP && in.flow != FLOW_BRANCH)
            continue;
        const uintptr_t target = decode_target(&in, pc);
        const uintptr_t part = target >= start && target < end ? 0 : part_at(target);
        if (part && part != start)
            encode_add_silent(function, pc + in.length, part, EDGE_SILENT_JUMP);
    }
}
