// SPDX-License-Identifier: MIT
// Where a function may go without a site of ours: what cannot be patched, and parts of it that lie
// elsewhere.

#include "track/encode/sites/silent_edges.h"
#include "patch/functions/function_map.h"
#include "patch/functions/jump_table.h"
#include "patch/functions/leaf_code.h"
#include "patch/x86_64/decode.h"
#include "track/context_id/context_id.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/leaf_functions.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/exceptions.h"

uintptr_t encode_resolve_target(uintptr_t from, uintptr_t target, uintptr_t slot)
{
    struct patch_module *module = functions_module(from);
    if (!slot && module && target)
        slot = functions_plt_slot(module, target);
    if (slot)
        return module && functions_is_bound(module, slot) ? functions_slot_target(slot) : 0;
    return target && functions_at(target) ? target : 0;
}

static bool stack_is_empty(uintptr_t pc)
{
    const struct patch_function *function = functions_at(pc);
    return !function || functions_stack_is_empty(function, pc);
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
    if (!slot && leaf_code_is(target))
        return;
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
    struct patch_function *other = functions_at(target);
    if (other && other->whole)
        functions_examine(other);
    // Or a whole function that is entered in the middle: libc's memory functions share their
    // bodies.
    if (other && (!other->whole || other->inside || target != other->start) &&
        !functions_plt_slot(other->module, target))
        return other->start;
    return 0;
}

void encode_add_function_parts(uint32_t function)
{
    struct patch_function *range = functions_at(encode_function_of(function)->address);
    if (range->falls_into)
        encode_add_silent(function, range->end, range->falls_into, EDGE_SILENT_JUMP);
    if (!range->decoded || !range->leaves || !function_map_of(range))
        return;
    struct instruction in;
    for (uintptr_t pc = range->start; (pc = function_map_way_out(range, pc)); pc++) {
        decode(code_at(pc), range->end - pc, &in);
        const bool jumps = in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH;
        const uintptr_t part = jumps ? part_at(decode_target(&in, pc)) : 0;
        if (part && part != range->start)
            encode_add_silent(function, pc + in.length, part, EDGE_SILENT_JUMP);
    }
}
