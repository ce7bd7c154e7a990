// SPDX-License-Identifier: MIT
// A context is told by the number of its thread only if a walk of the stack has said the same for
// that number once, in that function, called from that place, with the stack pointer where it was.
// So whatever makes a number wrong makes the stack pointer or the caller another one, too, or has
// to be as unlucky as to come to a known context by both.

#include "encode/codebook/serial.h"
#include "loadmap/loadmap.h"
#include "track/context_id/context_id.h"
#include "track/context_id/handle_table.h"
#include "track/encode/contexts/decode_state.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"

// All that readers have to decode with, so far; under the lock.
static struct {
    uint32_t functions, edges, stamp;
    bool has_stamp;
} told;

void numbered_context_restart(void)
{
    told.functions = told.edges = 0;
    told.has_stamp = false;
}

uintptr_t numbered_context_root_slot(void)
{
    return encode_current ? encode_current->root_slot : 0;
}

// Ids in open functions, and on ccStack, mean something only to whom knows which were open.
static bool is_plain(const struct context_state *context)
{
    bool plain = id_number(context->id, false) != ID_NONE;
    for (uint32_t i = 0; i < context->depth && plain; i++)
        plain = id_number(context->stack[i].id, false) != ID_NONE;
    return plain;
}

// ---- the slow path

// Graph and dictionary, as far as they are new. False: no room.
static bool tell(const struct encode_thread *thread)
{
    const struct graph *graph = &encode.graph;
    const struct dictionary *dictionary = thread->epoch->dictionary;
    const bool grown = graph->function_count > told.functions || graph->edge_count > told.edges;
    const bool encoded = !told.has_stamp || told.stamp != dictionary->stamp;
    if (!grown && !encoded)
        return true;
    struct serial out = {0};
    struct live_sections *sections = NULL;
    ref_t ref = 0;
    for (unsigned pass = 0; pass < 2; pass++) { // the first one only counts
        if (grown)
            serial_graph(&out, graph, told.functions, told.edges);
        if (encoded)
            serial_dictionary(&out, dictionary);
        if (pass == 1)
            break;
        sections = handles_reserve(out.size, &ref);
        if (!sections)
            return false;
        out = (struct serial){sections->data, 0, out.size};
    }
    handles_publish(sections, ref);
    told.functions = graph->function_count;
    told.edges = graph->edge_count;
    told.stamp = dictionary->stamp;
    told.has_stamp = true;
    return true;
}

// Under the lock: what was confirmed becomes two numbers. 0: no room.
static uint64_t intern(struct requesting_thread *requesting, const struct encode_thread *thread,
                       place_t point, uint32_t function)
{
    const struct context_state *context = &thread->state->context;
    const struct context_id creator = context_id_creator();
    struct intern *intern = tell(thread) ? handles_intern() : NULL;
    if (!intern)
        return 0;
    if (!requesting->origin)
        requesting->origin = intern_origin(
            intern, &(struct intern_origin){creator.id, creator.handle, GRAPH_NONE, context->root});
    const uint32_t stamp = thread->state->stamp;
    const uint32_t stack = intern_stack(intern, requesting->origin, context->stack, context->depth);
    return handles_number(stamp, intern_point(intern, stack, point, function));
}

static void remember(struct encode_thread *thread, const struct context_place *place,
                     const struct context_id *value)
{
    const struct context_state *context = &thread->state->context;
    const uintptr_t slot = thread->count ? thread->frames[0].slot : thread->root_slot;
    const struct caller_registers *caller = &place->caller;
    if (slot < caller->sp)
        return;
    confirmed_put(&thread->confirmed,
                  &(struct confirmed){
                      .key = context_key(context, caller->pc),
                      .at = caller->pc,
                      .caller = *(const uintptr_t *)slot,
                      .slot = slot - caller->sp,
                      .sp = caller->sp,
                      .stamp = thread->state->stamp,
                      .unloads = atomic_load_explicit(&encode.unloads, memory_order_relaxed),
                      .handle = value->handle,
                  });
}

bool numbered_context(struct requesting_thread *requesting, const struct context_place *place,
                      struct context_id *value)
{
    struct encode_thread *thread = encode_current;
    struct stub_place stub;
    uint64_t mask;
    // A call of ours that went through a hook is on ccStack, but not among the frames.
    const uintptr_t sp = place->caller.sp;
    if (!thread || sites_locate(place->caller.pc, &stub) || sp < thread->stack.low ||
        sp >= thread->stack.high || !encode_lock(thread, &mask))
        return false;
    struct unwind_cursor cursor;
    unwind_start_here(&cursor, &place->caller, (struct unwind_bounds){sp, thread->stack.high});
    const place_t point = cursor.frame.place;
    const place_t place_of = cursor.frame.function;
    const bool confirmed = encode_confirm(thread, &cursor, CONFIRM_OR_MEND);
    const uint32_t function = graph_find_function(&encode.graph, place_of);
    if (confirmed && is_plain(&thread->state->context) && handles_lock()) {
        value->id = thread->state->context.id;
        value->handle = intern(requesting, thread, point, function);
        handles_unlock();
        if (value->handle)
            remember(thread, place, value);
        else
            value->id = 0;
    }
    encode_unlock(thread, &mask);
    return confirmed && value->handle;
}
