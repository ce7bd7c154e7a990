// SPDX-License-Identifier: MIT
// What a hook does.

#include "track/encode/threads/hooks.h"
#include "base/agent_code.h"
#include "base/gc_hidden.h"
#include "loadmap/loadmap.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/libraries.h"
#include "track/encode/threads/count_pushes.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/exceptions.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/reencode.h"
#include "track/encode/threads/state_from_stack.h"
#include "track/encode/threads/state_offsets.h"
#include "track/walk/seen_unwinders.h"
#include <errno.h>

// From a stub's address, and the target of an indirect call, to the edge (state_offsets.h): one
// word, so that threads need no lock.
_Atomic uint64_t encode_table[1 << TABLE_BITS] GC_HIDDEN;

// The fast path knows where things are.
_Static_assert(offsetof(struct encode, wanted) == ENCODE_WANTED, "");
_Static_assert(offsetof(struct encode_words, first) == WORDS_FIRST, "");
_Static_assert(offsetof(struct encode_state, context.id) == STATE_ID, "");
_Static_assert(offsetof(struct encode_state, context.depth) == STATE_DEPTH, "");
_Static_assert(offsetof(struct encode_state, context.limit) == STATE_LIMIT, "");
_Static_assert(offsetof(struct encode_state, context.stack) == STATE_STACK, "");
_Static_assert(offsetof(struct encode_state, context.over) == STATE_OVER, "");
_Static_assert(offsetof(struct encode_state, validity) == STATE_VALIDITY, "");
_Static_assert(STATE_STALE == VALIDITY_STALE, "");
_Static_assert(offsetof(struct encode_state, stack_low) == STATE_STACK_LOW, "");
_Static_assert(offsetof(struct encode_state, stack_bytes) == STATE_STACK_BYTES, "");
_Static_assert(offsetof(struct encode_state, countdown) == STATE_COUNTDOWN, "");
_Static_assert(offsetof(struct encode_state, words) == STATE_WORDS, "");
_Static_assert(offsetof(struct encode_state, base) == STATE_BASE, "");
_Static_assert(offsetof(struct cc_entry, id) == ENTRY_ID, "");
_Static_assert(offsetof(struct cc_entry, edge) == ENTRY_EDGE, "");
_Static_assert(offsetof(struct cc_entry, count) == ENTRY_COUNT, "");
_Static_assert(sizeof(struct cc_entry) == ENTRY_BYTES, "");
_Static_assert(WORD_REPEATS == INT64_C(1) << WORD_BIT_REPEATS, "");
_Static_assert(WORD_LONG == (INT64_MIN | INT64_C(1) << WORD_BIT_LONG), "");

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp);

#define ROOM_BYTES 16384 // that the slow path may take

// On the stack of a coroutine, or of a signal's handler, of which nobody knows how small it is; at
// the end of the thread's own; or in a thread that is not known.
static bool is_elsewhere(const struct encode_thread *thread, uintptr_t sp)
{
    if (!thread)
        return true;
    const uintptr_t low = thread->stack.low + ROOM_BYTES;
    return sp - low >= thread->stack.high - low;
}

// The edge of a call that was met before, unless there is something to be done; else GRAPH_NONE.
static uint32_t known_edge(uintptr_t stub, uintptr_t target)
{
    const uint64_t hash = encode_table_hash(stub, target);
    // Relaxed: the word is all there is.
    const uint64_t word =
        atomic_load_explicit(&encode_table[hash & ((1 << TABLE_BITS) - 1)], memory_order_relaxed);
    if ((word ^ hash) >> TABLE_EDGE_BITS || !word ||
        atomic_load_explicit(&encode.wanted, memory_order_relaxed))
        return GRAPH_NONE;
    return (uint32_t)word & ((1 << TABLE_EDGE_BITS) - 1);
}

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    struct encode_state *state = &encode_state;
    if (agent_code || is_elsewhere(state->thread, sp) || encode_is_call_of_unwinder(state, sp)) {
        encode_push(state, GRAPH_NONE, false);
        return true;
    }
    const uint32_t edge = known_edge(stub, target);
    if (edge == GRAPH_NONE || state->validity >= STATE_STALE)
        return false;
    if (state->countdown < 0)
        encode_count_push(state, edge);
    encode_push(state, edge, encode_repeats(state->thread, edge));
    return true;
}

static void remember(uintptr_t stub, uintptr_t target, uint32_t edge)
{
    const uint64_t hash = encode_table_hash(stub, target);
    if (edge >= ENCODE_EDGES)
        return;
    const uint64_t word = encode_table_word(hash, edge);
    atomic_store_explicit(&encode_table[hash & ((1 << TABLE_BITS) - 1)], word,
                          memory_order_relaxed);
}

void encode_forget_calls(void)
{
    // Relaxed, as everywhere: nobody calls what is gone, and what is called next is looked up anew.
    for (uint32_t i = 0; i < 1 << TABLE_BITS; i++)
        if (atomic_load_explicit(&encode_table[i], memory_order_relaxed))
            atomic_store_explicit(&encode_table[i], 0, memory_order_relaxed);
}

// ---- the slow path of a hook

// Where a stub calls its hook, and where to.
struct hook_call {
    uintptr_t stub, target, sp, bp; // sp, bp: at the site
    struct stub_place place;
};

static bool walk_from(struct encode_thread *thread, const struct hook_call *call)
{
    struct unwind_cursor cursor;
    const struct site *site = call->place.site;
    const struct caller_registers caller = {site->address + site->length, call->sp, call->bp};
    const struct unwind_bounds stack = {call->sp, thread->stack.high};
    if (call->sp < thread->stack.low || call->sp >= thread->stack.high)
        return false;
    unwind_start_here(&cursor, &caller, stack);
    return encode_walk(thread, &cursor);
}

// The state is computed from the stack, for the encoding in force if all return addresses can be
// led to its code.
static void refresh(struct encode_thread *thread, const struct hook_call *call)
{
    if (walk_from(thread, call))
        encode_resync(thread, 0);
    else if (thread->state->validity != STATE_UNWINDING)
        encode_take_fast_path(thread->state); // a sample will try again
}

// Does to the state what the call does in the encoding that the thread is on; its return undoes it.
static void enter(struct encode_thread *thread, const struct stub_place *place, uint32_t edge)
{
    if (place->by_table)
        encode_apply_word(thread->state, encode_word(thread, place->index), edge);
    else
        encode_push(thread->state, edge, encode_repeats(thread, edge));
}

// There is no time to find out anything: what is undone on return is what must be done.
static void enter_unseen(struct encode_state *state, uintptr_t stub)
{
    struct stub_place place;
    if (state->thread && sites_locate(stub, &place) && place.by_table)
        encode_apply_word(state, encode_word(state->thread, place.index), GRAPH_NONE);
    else
        encode_push(state, GRAPH_NONE, false);
}

// Does what hooks are asked for, at a site. Under the lock.
static void encode_if_due(struct encode_thread *thread, const struct hook_call *call)
{
    const bool may = thread->state->validity != STATE_UNWINDING;
    const enum reencode reason = encode_decide();
    if (reason != REENCODE_NOT && may && walk_from(thread, call))
        encode_renumber(thread, reason);
    if (program_unwinder_has_memory() && may && walk_from(thread, call))
        encode_stop(thread);
    atomic_store_explicit(&encode.wanted, REENCODE_NOT, memory_order_relaxed);
}

// Under the lock.
static void meet_call(struct encode_thread *thread, struct encode_site *site,
                      const struct hook_call *call)
{
    struct encode_state *state = thread->state;
    const struct stub_place *place = &call->place;
    const uintptr_t called = call->target         ? call->target
                             : site->site->target ? site->site->target
                             : site->site->slot   ? *(uintptr_t *)site->site->slot
                                                  : 0;
    if (encode.stopped) {
        enter(thread, place, GRAPH_NONE);
        return;
    }
    if (state->validity == STATE_UNWINDING) // tells whether it still is
        walk_from(thread, call);
    const bool deeper = state->validity == STATE_UNWINDING;
    const bool wrong = state->validity != STATE_VALID || encode_is_behind(thread);
    if ((wrong && !deeper) || !thread->root_slot)
        refresh(thread, call);
    else if (state->validity < STATE_STALE)
        encode_take_fast_path(state);
    uint32_t edge = place->by_table ? place->index
                    : called        ? encode_edge(site, called)
                                    : GRAPH_NONE;
    encode_if_due(thread, call);
    encode_count_graph();
    // This call returns to its stub, even if the site leads elsewhere by now.
    enter(thread, place, edge);
    if (edge != GRAPH_NONE && !place->by_table)
        remember(call->stub, call->target, edge);
}

// The site of a call that is followed; NULL: it is none, or the thread is not known.
static struct encode_site *locate_call(const struct encode_thread *thread, struct hook_call *call)
{
    return thread && sites_locate(call->stub, &call->place) ? encode_site_of(call->place.site)
                                                            : NULL;
}

void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    const int saved_errno = errno;
    struct encode_thread *thread = encode_current;
    struct hook_call call = {stub, target, sp, bp, {0}};
    struct encode_site *site = locate_call(thread, &call);
    uint64_t mask;
    if (site && encode_lock(thread, &mask)) {
        meet_call(thread, site, &call);
        encode_unlock(thread, &mask);
    } else {
        enter_unseen(&encode_state, stub);
    }
    errno = saved_errno;
}

// ---- the fast paths of sites with a table, where the word is not just added

bool encode_table_known(uintptr_t stub, int64_t word, uintptr_t sp);
void encode_table_after(uintptr_t stub);

bool encode_table_known(uintptr_t stub, int64_t word, uintptr_t sp)
{
    struct encode_state *state = &encode_state;
    if (!word_is_long(word)) {
        if (state->countdown < 0)
            encode_count_push(state, (uint32_t)word);
        encode_apply_word(state, word, GRAPH_NONE);
        return true;
    }
    // In a handler of ours, on another stack, in an unwinder: nothing is looked at.
    if (agent_code || is_elsewhere(state->thread, sp) || encode_is_call_of_unwinder(state, sp)) {
        enter_unseen(state, stub);
        return true;
    }
    return false;
}

void encode_table_after(uintptr_t stub)
{
    struct encode_state *state = &encode_state;
    struct stub_place place;
    const bool known = state->thread && sites_locate(stub, &place);
    context_return(&state->context, known ? encode_word(state->thread, place.index) : WORD_LONG);
}

// ---- tail jumps through a variable

enum { JUMP_NS = 20 }; // what a hook takes that a chain would not need

bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp);

// Where the thread's encoding knows the edge, the number tells it.
static void note_jump(struct encode_state *state, uint32_t edge, uintptr_t slot)
{
    struct encode_unknown_jump *jump = &state->jump;
    if (edge < state->thread->epoch->dictionary->edges)
        return;
    encode_count_waste(state, JUMP_NS);
    if (encode_is_below_jump(state, slot)) {
        jump->edge = edge > jump->edge ? edge : jump->edge;
        return;
    }
    // The slot last: a handler that jumps meanwhile leaves a note of its own, and has returned.
    jump->slot = 0;
    atomic_signal_fence(memory_order_seq_cst);
    jump->returns = *(const uintptr_t *)slot;
    jump->edge = edge;
    atomic_signal_fence(memory_order_seq_cst);
    jump->slot = slot;
}

bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    struct encode_state *state = &encode_state;
    if (agent_code || is_elsewhere(state->thread, sp))
        return true;
    const uint32_t edge = known_edge(stub, target);
    if (edge == GRAPH_NONE)
        return false;
    note_jump(state, edge, sp);
    return true;
}

void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    const int saved_errno = errno;
    struct encode_thread *thread = encode_current;
    struct hook_call call = {stub, target, sp, bp, {0}};
    struct encode_site *site = locate_call(thread, &call);
    uint64_t mask;
    if (site && !encode.stopped && encode_lock(thread, &mask)) {
        const uint32_t edge = encode_edge(site, target);
        // The root leaves: its return address is on top of the stack.
        if (!thread->root_slot && loadmap_place(site->site->function) == thread->root)
            thread->root_slot = sp;
        encode_if_due(thread, &call);
        if (edge != GRAPH_NONE)
            remember(stub, target, edge);
        note_jump(thread->state, edge, sp);
        encode_count_graph();
        encode_unlock(thread, &mask);
    } else if (site && !encode.stopped) {
        note_jump(thread->state, GRAPH_NONE, sp);
    }
    errno = saved_errno;
}
