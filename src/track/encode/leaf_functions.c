// SPDX-License-Identifier: MIT
// Calls of quiet functions (patch/leaf_functions.h) are left as they are, and are no edges. What
// runs in one has the number of the function that called it, so a sample there climbs to that
// first: it walks a few frames, and takes off what a stub on the way has done, if the function was
// not called, but jumped to, or through a pointer. The same way leads out of functions that no
// number tells (those that do not take part, what they call back, what an open function has reached
// unseen) to one whose number does.

#include "patch/leaf_functions.h"
#include "loadmap/loadmap.h"
#include "track/encode/encode_parts.h"
#include "track/walk/unmarkable.h"

static struct series places = {.size = sizeof(place_t)};
static struct lookup places_lookup;
static uint32_t place_count;

bool encode_is_quiet(place_t function)
{
    uint32_t index;
    for (struct lookup_cursor at = lookup_start(&places_lookup, lookup_hash(function, 0));
         lookup_next(&at, &index);)
        if (*(const place_t *)series_at(&places, index) == function)
            return true;
    return false;
}

static void note(uintptr_t function, void *context)
{
    bool *failed = context;
    const place_t place = loadmap_place(function);
    if (encode_is_quiet(place)) // of a library that was loaded again
        return;
    if (*failed || !series_reach(&places, &encode.pool, place_count)) {
        *failed = true;
        return;
    }
    *(place_t *)series_at(&places, place_count) = place;
    *failed = !lookup_add(&places_lookup, &encode.pool, lookup_hash(place, 0), place_count);
    place_count++;
}

bool encode_leads_to_quiet(uintptr_t target)
{
    // What is half noted once is never known: there is no memory, and samples there are walked.
    static bool failed;
    return target && !failed && leaf_function_is(target, note, &failed) && !failed;
}

bool encode_undo_call(struct encode_thread *thread, const struct stub_place *place)
{
    if (!place->returns)
        return false;
    if (place->by_table || place->hooked)
        context_return(&thread->state->context,
                       place->by_table ? encode_word(thread, place->index) : WORD_PUSH);
    return true;
}

void encode_keep_state(const struct encode_thread *thread, struct encode_kept *kept)
{
    const struct encode_state *state = thread->state;
    const struct context_state *context = &state->context;
    *kept = (struct encode_kept){.id = context->id, .depth = context->depth, .over = context->over};
    if (context->depth)
        kept->top = context->stack[context->depth - 1];
}

void encode_restore_state(struct encode_thread *thread, const struct encode_kept *kept)
{
    struct context_state *context = &thread->state->context;
    context->id = kept->id;
    context->depth = kept->depth;
    context->over = kept->over;
    if (kept->depth)
        context->stack[kept->depth - 1] = kept->top;
}

// What a call has done to the state, if anything. False: it is not known.
static bool undo(struct encode_thread *thread, uintptr_t return_address,
                 struct encode_climbed *climbed)
{
    struct stub_place place;
    if (!sites_locate(return_address, &place))
        return true;
    encode_keep_state(thread, &climbed->kept[climbed->undone++]);
    return encode_undo_call(thread, &place);
}

static bool climb_frame(struct encode_thread *thread, struct unwind_cursor *cursor,
                        struct encode_climbed *climbed)
{
    const struct unwind_frame *left = &cursor->left;
    enum verdict verdict;
    if (climbed->frames == ENCODE_CLIMBED || unwind_step(cursor, &verdict) != UNWIND_OK ||
        (left->flags & (FRAME_CFI | FRAME_SIGNAL)) != FRAME_CFI ||
        left->ra_slot == thread->root_slot || left->ra_slot < thread->stack.low ||
        left->ra_slot >= thread->stack.high || encode_is_unwinder(left))
        return false;
    climbed->frames++;
    // What the agent has called was called from where the agent was.
    if (!unmarkable_is_agent(left->function))
        climbed->function[climbed->count++] = left->function;
    else if (climbed->count == 0)
        return false;
    climbed->site[climbed->count - 1] = cursor->frame.place;
    return undo(thread, *(const uintptr_t *)left->ra_slot, climbed);
}

bool encode_climb_on(struct encode_thread *thread, struct unwind_cursor *cursor,
                     struct encode_climbed *climbed, unsigned least)
{
    for (;;) {
        const bool quiet = encode_is_quiet(cursor->frame.function);
        const bool untold = !quiet && encode_is_untold(thread, cursor->frame.function);
        if (climbed->frames >= least && !quiet && !untold)
            return true;
        climbed->outside |= untold;
        if (!climb_frame(thread, cursor, climbed))
            return false;
    }
}

bool encode_climb(struct encode_thread *thread, struct unwind_cursor *cursor,
                  struct encode_climbed *climbed, unsigned least)
{
    climbed->frames = climbed->count = climbed->undone = 0;
    climbed->outside = false;
    return encode_climb_on(thread, cursor, climbed, least);
}

void encode_climb_down(struct encode_thread *thread, struct encode_climbed *climbed)
{
    while (climbed->undone > 0)
        encode_restore_state(thread, &climbed->kept[--climbed->undone]);
}

ref_t encode_place_climbed(const struct encode_climbed *climbed, struct walker *walker, ref_t node)
{
    for (unsigned i = climbed->count; i-- > 0 && node;) {
        const ref_t edge =
            tree_edge(walker->arena, walker->tree, climbed->site[i], climbed->function[i]);
        node = tree_child(walker->arena, walker->tree, node, edge);
    }
    return node;
}
