// SPDX-License-Identifier: MIT
// A context is told by the number of its thread only if a walk of the stack has said the same for
// that number once, in that function, called from that place, with the stack pointer where it was.
// So whatever makes a number wrong makes the stack pointer or the caller another one, too, or has
// to be as unlucky as to come to a known context by both.

#include "encode/serial.h"
#include "loadmap/loadmap.h"
#include "track/context_id/known_ids.h"
#include "track/encode/contexts/decode_state.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"

// What was left for those who decode; under the lock.
static struct {
    uint32_t functions, edges, stamp;
    bool has_stamp;
} told;

void encode_context_restart(void)
{
    told.functions = told.edges = 0;
    told.has_stamp = false;
}

uintptr_t encode_context_root_slot(void)
{
    return encode_current ? encode_current->root_slot : 0;
}

// The node of what is on ccStack; 0: it is not known.
static uint32_t find_stack(struct context_id_thread *asked, const struct context_state *context)
{
    uint32_t first;
    const struct intern *table = context_id_table(&first);
    if (!table || !asked->origin)
        return 0;
    return intern_find_stack(table, asked->origin, context->stack, context->depth, &asked->stack);
}

bool context_id_known(uintptr_t pc, uintptr_t sp, struct context_id *value)
{
    struct context_id_thread *asked = context_id_current;
    *value = (struct context_id){0, 0};
    if (!asked || asked->busy)
        return false;
    asked->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    const struct context_state *context = &encode_state.context;
    // Whom this interrupts will notice.
    __atomic_store_n(&asked->changes, asked->changes + 1, __ATOMIC_RELAXED);
    const uint32_t stack = find_stack(asked, context);
    if (stack)
        *value = context_id_recall(asked, pc, sp, stack, context->depth ? stack : 0,
                                   context_id_changes(asked));
    atomic_signal_fence(memory_order_seq_cst);
    asked->busy = 0;
    return value->handle != 0;
}

// Ids in open functions, and on ccStack, mean something only to whom knows which were open.
static bool is_plain(const struct context_state *context)
{
    bool plain = id_number(context->id, false) != ID_NONE;
    for (uint32_t i = 0; i < context->depth && plain; i++)
        plain = id_number(context->stack[i].id, false) != ID_NONE;
    return plain;
}

static bool is_sound(const struct encode_thread *thread, uintptr_t sp)
{
    const struct encode_state *state = thread->state;
    return !encode.failed && !encode.stopped && !thread->jumping && !state->context.over &&
           !state->doubt && thread->root_slot && !encode_is_behind(thread) &&
           !encode_is_below_jump(state, sp);
}

// ---- the slow path

// Whether the number says what a walk says; if it did not, it does now, or cannot. The walk is in
// thread->frames, the path in thread->path.
static bool confirm(struct encode_thread *thread, struct unwind_cursor *cursor)
{
    const place_t function = cursor->frame.function;
    const uintptr_t sp = cursor->sp;
    if (!encode_walk(thread, cursor) || thread->has_signal || thread->has_gap)
        return false;
    if (thread->jumping)
        thread->jumping = !encode_has_landed(thread);
    if (thread->state->doubt || encode_is_behind(thread))
        encode_resync(thread, 0);
    if (!is_sound(thread, sp))
        return false;
    bool decoded = encode_decode_state(thread, function);
    bool same = decoded && encode_compare(thread, 0);
    encode_count(&encode.counts->verified, decoded && encode_is_comparable(thread));
    encode_count(&encode.counts->mismatches, decoded && !same && encode_is_comparable(thread));
    if (!same) {
        encode_resync(thread, 0);
        same = is_sound(thread, sp) && encode_decode_state(thread, function) &&
               encode_compare(thread, 0);
    }
    return same;
}

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
        sections = context_id_reserve(out.size, &ref);
        if (!sections)
            return false;
        out = (struct serial){sections->data, 0, out.size};
    }
    context_id_publish(sections, ref);
    told.functions = graph->function_count;
    told.edges = graph->edge_count;
    told.stamp = dictionary->stamp;
    told.has_stamp = true;
    return true;
}

// Under the lock: what was confirmed becomes two numbers. 0: no room.
static uint64_t intern(struct context_id_thread *asked, const struct encode_thread *thread,
                       place_t point, uint32_t function, uint32_t *stack)
{
    const struct context_state *context = &thread->state->context;
    const struct context_id creator = context_id_creator();
    struct intern *intern = tell(thread) ? context_id_intern() : NULL;
    if (!intern)
        return 0;
    if (!asked->origin)
        asked->origin = intern_origin(
            intern, &(struct intern_origin){creator.id, creator.handle, GRAPH_NONE, context->root});
    const uint32_t stamp = thread->epoch->dictionary->stamp;
    *stack = (uint32_t)intern_stack(intern, stamp, asked->origin, context->stack, context->depth,
                                    &asked->stack);
    return context_id_handle(stamp, intern_point(intern, *stack, point, function));
}

// Code that may be unloaded can be something else the next time.
static bool is_permanent(uintptr_t pc)
{
    struct module_ref module;
    bool unloading;
    loadmap_enter();
    const bool permanent = loadmap_find(pc, &module, &unloading) && module.permanent;
    loadmap_leave();
    return permanent;
}

static void remember(struct context_id_thread *asked, const struct encode_thread *thread,
                     const struct context_place *place, const struct context_id *value,
                     uint32_t stack)
{
    const uintptr_t slot = thread->count ? thread->frames[0].slot : thread->root_slot;
    if (!slot || !is_permanent(place->pc))
        return;
    const struct context_id_memo *memo =
        context_id_memo_of(asked, place->pc, value->id, thread->state->context.depth ? stack : 0);
    *(struct context_id_memo *)memo =
        (struct context_id_memo){.pc = place->pc,
                                 .sp = place->sp,
                                 .slot = slot,
                                 .caller = *(const uintptr_t *)slot,
                                 .id = value->id,
                                 .handle = value->handle,
                                 .stack = stack,
                                 .stamp = thread->epoch->dictionary->stamp};
    __atomic_store_n(&asked->changes, asked->changes + 1, __ATOMIC_RELAXED);
}

bool encode_context(struct context_id_thread *asked, const struct context_place *place,
                    struct context_id *value)
{
    struct encode_thread *thread = encode_current;
    struct stub_place stub;
    uint64_t mask;
    // A call of ours that went through a hook is on ccStack, but not among the frames.
    if (!thread || sites_locate(place->pc, &stub) || place->sp < thread->stack.low ||
        place->sp >= thread->stack.high || !encode_lock(thread, &mask))
        return false;
    struct unwind_cursor cursor;
    unwind_start_here(&cursor, place->pc, place->sp, place->bp,
                      (struct unwind_bounds){place->sp, thread->stack.high});
    const place_t point = cursor.frame.place;
    const place_t place_of = cursor.frame.function;
    const bool confirmed = confirm(thread, &cursor);
    const uint32_t function = graph_find_function(&encode.graph, place_of);
    if (confirmed && is_plain(&thread->state->context) && context_id_lock()) {
        uint32_t stack = 0;
        value->id = thread->state->context.id;
        value->handle = intern(asked, thread, point, function, &stack);
        context_id_unlock();
        if (value->handle)
            remember(asked, thread, place, value, stack);
        else
            value->id = 0;
    }
    encode_unlock(thread, &mask);
    return confirmed && value->handle;
}
