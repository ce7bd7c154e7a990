// SPDX-License-Identifier: MIT
// A thread's stack, and the state that it stands for.

#include "track/encode/threads/state_from_stack.h"
#include "encode/graph/silent_path.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/exceptions.h"
#include "track/walk/unmarkable.h"

static bool in_stack(const struct encode_thread *thread, uintptr_t slot)
{
    return slot >= thread->stack.low && slot < thread->stack.high;
}

// Whether a function leads to another by silent edges.
static bool leads_to(uint32_t from, uint32_t function)
{
    uint32_t edges[SILENT_MOST];
    return silent_path(&encode.graph, SILENT_ALL, from, function, edges) >= 0;
}

// Whether the root runs as this function: itself, or what it left by a tail jump for.
static bool is_root(const struct encode_thread *thread, place_t place)
{
    if (place == thread->root)
        return true;
    const uint32_t function = graph_find_function(&encode.graph, place);
    const uint32_t root = thread->state->context.root;
    if (function == GRAPH_NONE || graph_function(&encode.graph, root)->first_out == GRAPH_NONE)
        return false;
    return leads_to(root, function);
}

// The return slot of the oldest frame of the root; what lies above it is not ours.
static bool find_root(struct encode_thread *thread)
{
    for (uint32_t i = thread->count; i-- > 0;) {
        const struct encode_frame *frame = &thread->frames[i];
        if (!frame->slot || !is_root(thread, frame->function))
            continue;
        thread->root_slot = frame->slot;
        thread->count = i;
        return true;
    }
    return false;
}

// A hook returns to its stub, but not to where calls return to. A function of ours that the program
// has called through a stub (malloc, where blocks are counted) does: what that call has done to the
// state belongs to it, and not to what it calls in libc.
static bool is_hook(const struct encode_thread *thread, const struct unwind_frame *frame)
{
    struct stub_place place;
    return unmarkable_is_agent(frame->function) && in_stack(thread, frame->ra_slot) &&
           sites_locate(*(uintptr_t *)frame->ra_slot, &place);
}

bool encode_walk(struct encode_thread *thread, struct unwind_cursor *cursor)
{
    thread->count = 0;
    return encode_walk_on(thread, cursor);
}

static bool walk_on(struct encode_thread *thread, struct unwind_cursor *cursor)
{
    enum verdict verdict;
    thread->obstacles = 0;
    while (unwind_step(cursor, &verdict) == UNWIND_OK) {
        const struct unwind_frame *left = &cursor->left, *caller = &cursor->frame;
        // When the root has returned, what runs then may have its return address in the same place.
        if (thread->root_slot && left->ra_slot == thread->root_slot)
            return is_root(thread, left->function);
        if (left->flags & FRAME_SIGNAL) {
            thread->obstacles |= OBSTACLE_SIGNAL;
            thread->signal_sp = cursor->sp;
        }
        if (is_hook(thread, left))
            thread->obstacles |= OBSTACLE_HOOK;
        if (!(left->flags & (FRAME_CFI | FRAME_SIGNAL)))
            thread->obstacles |= OBSTACLE_GAP;
        if (encode_takes_part(left->pc) && !encode_takes_part(caller->pc))
            thread->obstacles |= OBSTACLE_CALLBACK;
        if (encode_is_unwinder(left)) {
            thread->obstacles |= OBSTACLE_UNWINDER;
            thread->state->unwinder_sp = left->ra_slot;
        }
        if (thread->count == ENCODE_FRAMES)
            return false;
        thread->frames[thread->count++] = (struct encode_frame){
            .slot = in_stack(thread, left->ra_slot) ? left->ra_slot : 0,
            .site = caller->place + (caller->flags & FRAME_INTERRUPTED ? 1 : 0),
            .function = left->function,
        };
    }
    return !thread->root_slot && find_root(thread);
}

bool encode_walk_on(struct encode_thread *thread, struct unwind_cursor *cursor)
{
    const bool walked = walk_on(thread, cursor);
    struct encode_state *state = thread->state;
    if (!(thread->obstacles & OBSTACLE_UNWINDER) && state->validity == STATE_UNWINDING)
        state->validity = STATE_STALE; // it has left its frames
    return walked;
}

// The first id of the function that is called, in the encoding that the thread is on.
static uint64_t first_of(const struct encode_state *state, uint32_t edge)
{
    if (edge == GRAPH_NONE || !state->thread)
        return 0;
    return encode_first_id(state->thread->epoch, graph_edge(&encode.graph, edge)->callee);
}

void encode_push(struct encode_state *state, uint32_t edge, bool repeats)
{
    context_call(&state->context, WORD_PUSH | (repeats ? WORD_REPEATS : 0) | edge,
                 state->base + first_of(state, edge));
}

// The edge by which a frame was called through a hook. The function that runs may have been entered by
// a jump from the one that was called.
static uint32_t edge_of(const struct encode_site *site, const struct encode_frame *frame)
{
    const struct graph *graph = &encode.graph;
    if (site->edge != GRAPH_NONE)
        return site->edge;
    uint32_t function = graph_find_function(graph, frame->function);
    if (function == GRAPH_NONE)
        return GRAPH_NONE;
    uint32_t edge = graph_find_edge(graph, frame->site, function);
    if (edge != GRAPH_NONE)
        return edge;
    uint32_t at = graph_find_site(graph, frame->site);
    for (edge = at == GRAPH_NONE ? at : graph_site(graph, at)->first_edge; edge != GRAPH_NONE;
         edge = graph_edge(graph, edge)->next_at_site)
        if (leads_to(graph_edge(graph, edge)->callee, function))
            return edge;
    return GRAPH_NONE;
}

void encode_apply_word(struct encode_state *state, int64_t word, uint32_t edge)
{
    if (word >= 0)
        state->context.id += (uint64_t)word;
    else if (word_is_long(word))
        encode_push(state, edge, false);
    else
        encode_push(state, (uint32_t)word, word & WORD_REPEATS);
}

// Whether a call whose return address is not in a stub would go through one by now, and change the
// state: it was made when its site was not followed yet.
static bool is_missed(const struct encode_thread *thread, uintptr_t return_address)
{
    const struct site *site = sites_before(return_address);
    const struct encode_site *known = site ? encode_site_of(site) : NULL;
    if (!known || site->kind == SITE_TAIL_INDIRECT)
        return false;
    const struct stub *stub = atomic_load(&site->stub);
    return stub && (stub != known->adding || encode_word(thread, known->edge) != 0);
}

// Does what a frame's return undoes. False: it undoes nothing, and would if its call were made now.
static bool replay_frame(struct encode_thread *thread, const struct encode_frame *frame)
{
    struct encode_state *state = thread->state;
    struct stub_place place;
    if (!frame->slot)
        return true;
    if (!sites_locate(*(uintptr_t *)frame->slot, &place))
        return !is_missed(thread, *(uintptr_t *)frame->slot);
    const struct encode_site *site = encode_site_of(place.site);
    // A hook before its call returns to the stub, too.
    if (!site || !place.returns)
        return true;
    if (place.by_table) {
        encode_apply_word(state, encode_word(thread, place.index), place.index);
    } else if (place.hooked) {
        const uint32_t edge = edge_of(site, frame);
        encode_push(state, edge, encode_repeats(thread, edge));
    }
    return true;
}

static bool has_pushed(const struct encode_thread *thread, const struct encode_frame *frame)
{
    struct stub_place place;
    if (!frame->slot || !sites_locate(*(uintptr_t *)frame->slot, &place) || !place.returns)
        return false;
    return place.hooked || (place.by_table && encode_word(thread, place.index) < 0);
}

bool encode_pushes_match(const struct encode_thread *thread)
{
    const struct context_state *context = &thread->state->context;
    uint64_t calls = 0, entries = 0;
    for (uint32_t i = 0; i < thread->count; i++)
        calls += has_pushed(thread, &thread->frames[i]);
    for (uint32_t i = 0; i < context->depth; i++)
        entries += UINT64_C(1) + context->stack[i].count;
    return calls == entries;
}

void encode_compute_state(struct encode_thread *thread, uintptr_t above)
{
    struct encode_state *state = thread->state;
    bool complete = true;
    context_reset(&state->context, encode_first_id(thread->epoch, state->context.root));
    for (uint32_t i = thread->count; i-- > 0;)
        if (thread->frames[i].slot >= above)
            complete &= replay_frame(thread, &thread->frames[i]);
    // A handler may have interrupted a stub or a hook, which goes on later with what it has done to
    // the state before, and is to do. Frames that are left below it are all the same.
    const bool interrupted = thread->obstacles & OBSTACLE_SIGNAL && thread->signal_sp > above;
    if (state->validity != STATE_UNWINDING)
        state->validity = complete && !interrupted ? STATE_VALID : STATE_UNSURE;
}

// The stub that a frame would return to if its call were made now; NULL: the original code.
static const struct stub *stub_of(const struct encode_site *site, const struct encode_frame *frame)
{
    const struct stub *stub = atomic_load(&site->site->stub);
    if (!stub || !site->targets)
        return stub;
    const struct stub *arm = encode_arm_of(site, edge_of(site, frame));
    return arm ? arm : site->hook;
}

static void set_return(struct encode_thread *thread, uintptr_t *slot, uintptr_t address)
{
    struct encode_unknown_jump *jump = &thread->state->jump;
    if (jump->slot == (uintptr_t)slot && jump->returns == *slot)
        jump->returns = address;
    *slot = address;
}

void encode_move_returns(struct encode_thread *thread)
{
    for (uint32_t i = 0; i < thread->count; i++) {
        if (!thread->frames[i].slot)
            continue;
        uintptr_t *slot = (uintptr_t *)thread->frames[i].slot;
        struct stub_place place = {0};
        const bool in_stub = sites_locate(*slot, &place);
        struct site *site = in_stub ? place.site : sites_before(*slot);
        if ((in_stub && !place.returns) || !site || site->kind == SITE_TAIL_INDIRECT)
            continue;
        const struct encode_site *known = encode_site_of(site);
        if (!known)
            continue;
        const struct stub *stub = stub_of(known, &thread->frames[i]);
        set_return(thread, slot, stub ? stub_return_address(stub) : site->address + site->length);
    }
}

void encode_uncover_returns(struct encode_thread *thread)
{
    for (uint32_t i = 0; i < thread->count; i++) {
        uintptr_t *slot = (uintptr_t *)thread->frames[i].slot;
        struct stub_place place;
        if (slot && sites_locate(*slot, &place) && place.returns)
            set_return(thread, slot, place.site->address + place.site->length);
    }
}

void encode_resync(struct encode_thread *thread, uintptr_t above)
{
    // Not only to another encoding: since the thread went over to the one in force, others may have
    // had functions looked at that are on its stack.
    if (encode_may_move(thread)) {
        encode_move_returns(thread);
        if (encode_is_behind(thread))
            encode_join(thread);
    }
    encode_compute_state(thread, above);
    if (thread->state->validity < STATE_STALE)
        encode_take_fast_path(thread->state);
}

bool encode_has_landed(const struct encode_thread *thread)
{
    for (uint32_t i = 0; i < thread->count; i++)
        if (unmarkable_is_agent(thread->frames[i].function))
            return false;
    return true;
}
